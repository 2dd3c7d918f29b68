"""The published sizes of well-known transformers.

A test derives from them the exact number of parameters that each model is published with.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A transformer's sizes.

    Args:
        name: How labels call it.
        layers: Blocks.
        hidden: Width between the blocks.
        heads: Heads of the queries.
        kv_heads: Heads of the keys and values.
        feed_forward: Width inside the feed-forward part.
        vocabulary: Tokens; classes of a network for images.
        context: The longest sequence it is made for; the number of patches and the class token for images.
        epsilon: Of its normalisations.
        source: Where the sizes are published.
        head: Width of a head.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int
    context: int
    epsilon: float
    source: str

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads


_BERT = (
    "Devlin et al., BERT, NAACL 2019, section 3 and appendix A.2; github.com/google-research/bert: README.md, modeling.py; "
    "epsilon: tensorflow 1.15, contrib/layers/python/layers/layers.py, layer_norm"
)
_GPT2 = (
    "Radford et al., Language Models are Unsupervised Multitask Learners, 2019, table 2; github.com/openai/gpt-2: "
    "src/model.py; heads: hparams.json of the published models"
)
_LLAMA3 = (
    "Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3; github.com/meta-llama/llama-models: "
    "models/llama3_1/api/sku_list.py; context: github.com/pytorch/torchtune: torchtune/models/llama3/_model_builders.py"
)
_MISTRAL = (
    "Jiang et al., Mistral 7B, 2023, table 1; huggingface.co/mistralai/Mistral-7B-v0.1: config.json; "
    "github.com/pytorch/torchtune: torchtune/models/mistral/_model_builders.py"
)
_VIT = (
    "Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, table 1; 224 x 224 pixels; "
    "github.com/google-research/vision_transformer: vit_jax/configs/models.py, vit_jax/models_vit.py; "
    "epsilon: flax.linen.LayerNorm"
)

BERT_BASE = Model("bert-base", 12, 768, 12, 12, 3072, 30522, 512, 1e-12, _BERT)
BERT_LARGE = Model("bert-large", 24, 1024, 16, 16, 4096, 30522, 512, 1e-12, _BERT)
GPT2 = Model("gpt2", 12, 768, 12, 12, 3072, 50257, 1024, 1e-5, _GPT2)
GPT2_XL = Model("gpt2-xl", 48, 1600, 25, 25, 6400, 50257, 1024, 1e-5, _GPT2)
LLAMA3_8B = Model("llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, 1e-5, _LLAMA3)
LLAMA3_70B = Model("llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192, 1e-5, _LLAMA3)
MISTRAL_7B = Model("mistral-7b", 32, 4096, 32, 8, 14336, 32000, 8192, 1e-5, _MISTRAL)
VIT_B16 = Model("vit-b16", 12, 768, 12, 12, 3072, 1000, 197, 1e-6, _VIT)
VIT_L16 = Model("vit-l16", 24, 1024, 16, 16, 4096, 1000, 197, 1e-6, _VIT)

ENCODERS = (BERT_BASE, BERT_LARGE, VIT_B16, VIT_L16)
"""Read all of a sequence at once, in batches."""

WINDOW = 4096
"""How far a layer of Mistral 7B looks back: table 1."""

LONG_CONTEXT = 131072
"""What the context of Llama 3 was lengthened to: section 3.4.2, 128K tokens; ``CONTEXT_LENGTH`` in ``sku_list.py``."""
