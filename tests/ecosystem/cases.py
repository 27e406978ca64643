"""The cases of the comparison: kinds and architectures of transformers, whose tiny models torch runs in seconds."""

from __future__ import annotations

_ARCHITECTURES = {
    "causal": """
        afmoe apertus arcee bart bert biogpt bitnet blenderbot bloom codegen cohere cohere2 ctrl cwm deepseek_v2 diffllama doge
        dots1 electra ernie4_5 exaone4 falcon falcon_mamba flex_olmo gemma gemma2 gemma3_text glm glm4 glm4_moe gpt2 gpt_bigcode
        gpt_neox gpt_oss gptj granite granitemoe helium hunyuan_v1_dense jetmoe lfm2 llama llama4_text mamba marian mbart minimax
        ministral mistral mixtral modernbert-decoder mpt nanochat nemotron olmo olmo2 olmo3 olmoe openai-gpt opt persimmon phi
        phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_moe roberta seed_oss smollm3 stablelm starcoder2 xglm xlnet
    """,
    "masked": """
        albert bert camembert convbert deberta deberta-v2 distilbert electra ernie fnet funnel ibert layoutlm luke mobilebert
        modernbert mpnet roberta roformer squeezebert xlm-roberta
    """,
    "seq2seq": "bart blenderbot m2m_100 marian mbart mt5 mvp pegasus pegasus_x plbart prophetnet t5 umt5 switch_transformers longt5",
    "image": "beit convnext dinov2 ijepa mobilenet_v2 resnet vit vit_msn swin poolformer regnet pvt_v2",
}

CASES = [(kind, name) for kind, names in _ARCHITECTURES.items() for name in names.split()]
