"""Tiny models of transformers, built from their config classes, with weights and inputs that do not depend on torch's random numbers.

A case is `architecture` and `kind`. A config gets small numbers for all size settings that it has; few need more, in `MORE`.
"""

from __future__ import annotations

import inspect
import zlib
from typing import Any

import numpy as np
import torch

#: Small values of settings, by the name that config classes give them.
SMALL: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32, "embedding_size": 32, "emb_dim": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "multi_query": False, "head_dim": 8, "intermediate_size": 48, "ffn_dim": 48, "d_ff": 48, "n_inner": 48, "hidden_dim": 48,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "d_inner": 48, "d_kv": 8, "max_position_embeddings": 64, "n_positions": 64, "max_seq_len": 64,
    "n_ctx": 64, "seq_length": 64, "type_vocab_size": 2, "word_embed_proj_dim": 32, "rotary_dim": 4, "num_experts": 4, "num_local_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
    "shared_expert_intermediate_size": 24, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8,
    "image_size": 16, "patch_size": 4, "num_channels": 3, "state_size": 4, "conv_kernel": 4, "time_step_rank": 2, "attention_hidden_size": 32,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None, "forced_bos_token_id": None,
    "use_mamba_kernels": False, "num_labels": 3, "sliding_window": 8, "attention_window": 4, "max_source_positions": 32, "max_target_positions": 32,
    "num_mel_bins": 8, "layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "ngram": 2, "num_buckets": 8, "relative_max_distance": 16,
    "use_cache": True, "tie_word_embeddings": False, "backbone_out_indices": [1], "num_hash_buckets": 64, "mamba_n_heads": 4, "mamba_d_head": 16,
    "mamba_d_state": 8, "mamba_chunk_size": 8, "mamba_d_conv": 4, "mamba_expand": 2, "n_mamba_heads": 1, "first_k_dense_replace": 1,
    "shared_intermediate_size": 24, "max_length": 64, "use_bfloat16": False, "dtype": "float32",
}  # fmt: skip
#: Settings that single architectures need beside these.
MORE: dict[str, dict[str, Any]] = {}
#: Kinds of models, with the class of transformers that builds them.
KINDS = {
    "causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM", "seq2seq": "AutoModelForSeq2SeqLM", "image": "AutoModelForImageClassification",
    "encoder": "AutoModel",
}  # fmt: skip


def make_config(architecture: str) -> Any:
    """Return the config of an architecture with small numbers."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[architecture]
    known = kind()
    names = set(inspect.signature(kind.__init__).parameters) | set(vars(known)) | set(getattr(kind, "attribute_map", {}))
    given = {name: value for name, value in SMALL.items() if name in names}
    given = {name: value for name, value in given.items() if not (isinstance(getattr(known, name, None), (list, tuple)) and not isinstance(value, list))}
    for name in names:
        if "dropout" in name or name.endswith("pdrop") or name.endswith("drop_rate"):
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
        size = config.image_size if isinstance(getattr(config, "image_size", 32), int) else config.image_size[0]
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
