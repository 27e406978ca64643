"""torch's `ao`: parts of prepared networks that compute in floating point. Numbers of few bits are not supported."""

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__: list[str] = []

_refuse_absent(__name__)
