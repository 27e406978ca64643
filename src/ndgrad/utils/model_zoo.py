"""The older name of `hub.load_state_dict_from_url`."""

from ndgrad import hub
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> object:
    if name == "tqdm":
        return hub.tqdm
    raise AttributeError(name)


_refuse_absent(__name__)
