"""Tiny models of transformers, built from their config classes, with weights and inputs that do not depend on torch's random numbers.

A case is `architecture` and `kind`. A config gets small numbers for all size settings that it has; few need more, in `MORE`.
"""

from __future__ import annotations

import inspect
import zlib
from typing import Any

import numpy as np
import torch

#: Small values of settings, each with the names that config classes give to them.
_NUMBERS: dict[Any, str] = {
    99: "vocab_size",
    64: "max_position_embeddings n_positions max_seq_len n_ctx seq_length num_hash_buckets max_length",
    48: "intermediate_size ffn_dim d_ff n_inner hidden_dim encoder_ffn_dim decoder_ffn_dim d_inner",
    32: (
        "hidden_size d_model n_embd dim embed_dim embedding_size emb_dim word_embed_proj_dim attention_hidden_size max_source_positions "
        "max_target_positions"
    ),
    24: "moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size",
    16: "q_lora_rank image_size relative_max_distance mamba_d_head",
    8: "head_dim d_kv kv_lora_rank v_head_dim sliding_window num_mel_bins num_buckets mamba_d_state mamba_chunk_size",
    4: (
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads rotary_dim num_experts "
        "num_local_experts n_routed_experts qk_rope_head_dim qk_nope_head_dim patch_size state_size conv_kernel attention_window "
        "mamba_n_heads mamba_d_conv"
    ),
    3: "num_channels num_labels",
    2: (
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers num_key_value_heads "
        "type_vocab_size num_experts_per_tok time_step_rank eos_token_id ngram mamba_expand"
    ),
    1: "n_shared_experts n_group topk_group bos_token_id decoder_start_token_id n_mamba_heads first_k_dense_replace",
}
SMALL: dict[str, Any] = {name: number for number, names in _NUMBERS.items() for name in names.split()} | {
    "pad_token_id": 0, "forced_eos_token_id": None, "forced_bos_token_id": None, "multi_query": False, "use_mamba_kernels": False,
    "use_cache": True, "tie_word_embeddings": False, "use_bfloat16": False, "dtype": "float32",
    "layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
}  # fmt: skip
#: Settings that single architectures need beside these.
MORE: dict[str, dict[str, Any]] = {
    "luke": {"entity_vocab_size": 20, "entity_emb_size": 16},
    "t5": {"decoder_start_token_id": 0},
    "mt5": {"decoder_start_token_id": 0},
    "umt5": {"decoder_start_token_id": 0},
    "longt5": {"decoder_start_token_id": 0, "local_radius": 4},
    "switch_transformers": {"decoder_start_token_id": 0},
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    "regnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4},
    "swin": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 2, "hidden_size": 32},
    "poolformer": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_encoder_blocks": 4},
}
#: Kinds of models, with the class of transformers that builds them.
KINDS = {
    "causal": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "image": "AutoModelForImageClassification",
    "encoder": "AutoModel",
}


def make_config(architecture: str) -> Any:
    """Return the config of an architecture with small numbers."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[architecture]
    known = kind()
    names = set(inspect.signature(kind.__init__).parameters) | set(vars(known)) | set(getattr(kind, "attribute_map", {}))
    given = {name: value for name, value in SMALL.items() if name in names}
    given = {name: value for name, value in given.items() if not isinstance(getattr(known, name, None), (list, tuple))}
    for name in names:
        if "dropout" in name or name.endswith(("pdrop", "drop_rate")):
            given[name] = 0.0 if isinstance(getattr(known, name, 0.0), (int, float)) else getattr(known, name)
    given.update(MORE.get(architecture, {}))
    return AutoConfig.for_model(architecture, **given)


def fill(model: Any) -> None:
    """Give every parameter and floating-point buffer values that depend on its name and shape only."""
    done = set()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if id(p) in done:
                continue
            done.add(id(p))
            draw = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
            values = draw.standard_normal(tuple(p.shape)) * (0.08 if p.dim() > 1 else 0.02)
            if p.dim() == 1 and ("norm" in name.lower() or "ln" in name.lower()) and "weight" in name:
                values = values + 1.0
            p.copy_(torch.tensor(values.astype("float32")).to(p.dtype))


def build(architecture: str, kind: str) -> Any:
    """Return the model of a case, in eval mode."""
    import transformers

    config = make_config(architecture)
    model = getattr(transformers, KINDS[kind]).from_config(config)
    fill(model)
    return model.float().eval()


def make_inputs(model: Any, kind: str) -> dict[str, Any]:
    """Return the arguments of a call."""
    draw = np.random.RandomState(7)
    config = model.config
    if kind == "image" or (kind == "encoder" and model.main_input_name == "pixel_values"):
        size = getattr(config, "image_size", 32)
        size = size if isinstance(size, int) else size[0]
        pixels = draw.standard_normal((2, getattr(config, "num_channels", 3), size, size)).astype("float32")
        made: dict[str, Any] = {"pixel_values": torch.tensor(pixels)}
        if kind == "image":
            made["labels"] = torch.tensor([0, 1])
        return made
    vocabulary = min(getattr(config, "vocab_size", 99), 99)
    tokens = torch.tensor(draw.randint(3, vocabulary, (2, 8)))
    made = {"input_ids": tokens, "attention_mask": torch.ones(2, 8, dtype=torch.long)}
    if kind == "seq2seq":
        made["labels"] = torch.tensor(draw.randint(3, vocabulary, (2, 6)))
    elif kind in ("causal", "masked"):
        made["labels"] = tokens
    accepted = inspect.signature(model.forward).parameters
    return {name: value for name, value in made.items() if name in accepted or name == model.main_input_name}
