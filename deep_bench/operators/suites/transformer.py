"""The operators of transformers at the published sizes of well-known models.

Widths, heads, layers and vocabularies are the models'; a test derives from them the exact number of parameters that each
model is published with. Batch sizes and lengths of sequences are chosen here: 8 sequences of 128 and 512 tokens for BERT,
8 images for ViT, one sequence of the whole context for GPT-2; for the larger models a prompt of 512 or 2,048 tokens
(``prefill``), and one new token for each of 1 or 8 sequences with the keys and values of what came before (``decode``).
``count`` is how often a forward pass of the model has the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deep_bench.operators.case import Case
from deep_bench.operators.suites.suite import Suite


@dataclass(frozen=True)
class TransformerModel:
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

BERT_BASE = TransformerModel("bert-base", 12, 768, 12, 12, 3072, 30522, 512, 1e-12, _BERT)
BERT_LARGE = TransformerModel("bert-large", 24, 1024, 16, 16, 4096, 30522, 512, 1e-12, _BERT)
GPT2 = TransformerModel("gpt2", 12, 768, 12, 12, 3072, 50257, 1024, 1e-5, _GPT2)
GPT2_XL = TransformerModel("gpt2-xl", 48, 1600, 25, 25, 6400, 50257, 1024, 1e-5, _GPT2)
LLAMA3_8B = TransformerModel("llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, 1e-5, _LLAMA3)
LLAMA3_70B = TransformerModel("llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192, 1e-5, _LLAMA3)
MISTRAL_7B = TransformerModel("mistral-7b", 32, 4096, 32, 8, 14336, 32000, 8192, 1e-5, _MISTRAL)
VIT_B16 = TransformerModel("vit-b16", 12, 768, 12, 12, 3072, 1000, 197, 1e-6, _VIT)
VIT_L16 = TransformerModel("vit-l16", 24, 1024, 16, 16, 4096, 1000, 197, 1e-6, _VIT)

ENCODERS = (BERT_BASE, BERT_LARGE, VIT_B16, VIT_L16)
"""Read all of a sequence at once, in batches."""


WINDOW = 4096
"""How far a layer of Mistral 7B looks back: table 1."""


LONG_CONTEXT = 131072
"""What the context of Llama 3 was lengthened to: section 3.4.2, 128K tokens; ``CONTEXT_LENGTH`` in ``sku_list.py``."""


_CHOSEN = "batch sizes and lengths of sequences are chosen here; all other sizes are the models'"
_GATED = (LLAMA3_8B, LLAMA3_70B, MISTRAL_7B)


@dataclass(frozen=True, slots=True)
class _Use:
    """A model at work.

    Args:
        model: The model.
        phase: What it does: ``encode``, ``prefill`` or ``decode``.
        batch: How many sequences.
        tokens: How many tokens of each are new.
    """

    model: TransformerModel
    phase: str
    batch: int
    tokens: int

    @property
    def label(self) -> str:
        return f"{self.model.name} {self.phase} {self.batch}x{self.tokens}"

    def case(
        self,
        operator: str | Callable[..., Any],
        *inputs: Any,
        count: int,
        suffix: str = "",
        tags: str = "",
        **attributes: Any,
    ) -> Case:
        words = {"transformer", self.model.name, self.phase, *tags.split()}
        return Case.of(
            operator, *inputs, count=count, label=self.label + suffix, tags=words, source=self.model.source, **attributes
        )


def _encoding() -> Iterator[_Use]:
    for model in ENCODERS:
        for tokens in (model.context,) if model in (VIT_B16, VIT_L16) else (128, model.context):
            yield _Use(model, "encode", 8, tokens)


def _generating() -> Iterator[_Use]:
    """What language models do, the smallest first."""
    yield _Use(GPT2, "prefill", 1, GPT2.context)
    yield _Use(GPT2_XL, "prefill", 1, GPT2_XL.context)
    yield from _gated()


def _gated() -> Iterator[_Use]:
    for model in _GATED:
        yield _Use(model, "decode", 1, 1)
        yield _Use(model, "decode", 8, 1)
        yield _Use(model, "prefill", 1, 512)
        yield _Use(model, "prefill", 1, 2048)


def _suite(name: str, cases: Iterable[Case]) -> Suite:
    return Suite(
        f"transformer/{name}", list(cases), "published sizes of models; see the source of each case", "", (_CHOSEN,)
    )


def _attend(use: _Use, keys: int, *, tags: str = "", **attributes: Any) -> Case:
    """Attention of the new tokens to ``keys`` keys and values, each head with its own rows."""
    model = use.model
    cache_shape = (use.batch, model.kv_heads, keys, model.head)
    words = f"{tags} gqa" if model.kv_heads < model.heads else tags
    suffix = "" if keys == use.tokens else f" of {keys}"
    queries = (use.batch, model.heads, use.tokens, model.head)
    return use.case(
        "Attention", queries, cache_shape, cache_shape, count=model.layers, suffix=suffix, tags=words, **attributes
    )


def _append(model: TransformerModel, tokens: int, past: int) -> Case:
    """Attention of a few new tokens, which also lengthens the keys and values: what speculative decoding does."""
    new, cache_shape = (1, model.kv_heads, tokens, model.head), (1, model.kv_heads, past, model.head)
    use = _Use(model, "append", 1, tokens)
    queries = (1, model.heads, tokens, model.head)
    return use.case(
        "Attention", queries, new, new, None, cache_shape, cache_shape,
        count=model.layers, suffix=f" to {past}", tags="gqa", is_causal=1, outputs=3,
    )  # fmt: skip


def attention() -> Suite:
    """Scaled dot-product attention: encoders, prompts, single new tokens, grouped queries, long contexts.

    Example:
        >>> case = attention().case("llama3-8b decode 8x1 of 2048")
        >>> [a.shape for a in case.arguments]
        [(8, 32, 1, 128), (8, 8, 2048, 128), (8, 8, 2048, 128)]
    """
    cases = [_attend(use, use.tokens) for use in _encoding()]
    cases += [_attend(use, use.tokens, is_causal=1) for use in _generating() if use.phase == "prefill"]
    cases += [_attend(use, 2048) for use in _generating() if use.phase == "decode"]
    cases += [_append(model, 16, 2032) for model in (LLAMA3_8B, LLAMA3_70B)]
    cases += [_attend(_Use(model, "decode", 1, 1), model.context, tags="long-context") for model in (LLAMA3_8B, LLAMA3_70B)]
    cases.append(_attend(_Use(MISTRAL_7B, "decode", 1, 1), WINDOW, tags="long-context"))
    cases.append(_attend(_Use(LLAMA3_8B, "decode", 1, 1), LONG_CONTEXT, tags="long-context"))
    whole = _Use(MISTRAL_7B, "prefill", 1, MISTRAL_7B.context)
    cases.append(_attend(whole, whole.tokens, tags="long-context sliding-window", is_causal=1, left_window_size=WINDOW - 1))
    return _suite("attention", cases)


def layer_norm() -> Suite:
    """Layer normalisation: before or after both parts of each block, and once more.

    Example:
        >>> case = layer_norm().case("bert-base encode 8x128")
        >>> case.arguments[0].shape, case.count
        ((8, 128, 768), 25)
    """
    uses = [*_encoding(), *(u for u in _generating() if u.model in (GPT2, GPT2_XL))]
    return _suite("layer_norm", [_normalise("LayerNormalization", use, 2) for use in uses])


def rms_norm() -> Suite:
    """Normalisation by the root of the mean square.

    Example:
        >>> rms_norm().case("llama3-70b decode 8x1").count
        161
    """
    return _suite("rms_norm", [_normalise("RMSNormalization", use, 1) for use in _gated()])


def _normalise(operator: str, use: _Use, weights: int) -> Case:
    width = use.model.hidden
    shapes = [(width,)] * weights
    count = 2 * use.model.layers + 1
    return use.case(operator, (use.batch, use.tokens, width), *shapes, count=count, axis=-1, epsilon=use.model.epsilon)


def gelu() -> Suite:
    """GELU inside the feed-forward part: exact for BERT, by ``tanh`` for ViT and GPT-2.

    So the models' own code has it: ViT calls ``flax.linen.gelu``, whose default is the approximation; GPT-2 writes it out
    (``src/model.py``). Ports of ViT to other frameworks often have the exact one. BERT's own code (``modeling.py``) had the
    exact one when it was published, as its ports still do, and the approximation later.

    Example:
        >>> gelu().case("gpt2 prefill 1x1024").attributes["approximate"]
        'tanh'
    """
    uses = [*_encoding(), *(u for u in _generating() if u.model in (GPT2, GPT2_XL))]
    exact = (BERT_BASE, BERT_LARGE)
    return _suite("gelu", [_activate(u, **({} if u.model in exact else {"approximate": "tanh"})) for u in uses])


def _activate(use: _Use, **attributes: Any) -> Case:
    return use.case("Gelu", (use.batch, use.tokens, use.model.feed_forward), count=use.model.layers, **attributes)


def swiglu() -> Suite:
    """``swish(a) * b`` inside the gated feed-forward part; the matrix products around it are in `linear`.

    Example:
        >>> swiglu().case("mistral-7b prefill 1x512").results[0].shape
        (1, 512, 14336)
    """
    return _suite("swiglu", map(_gate, _gated()))


def _gate(use: _Use) -> Case:
    shape = (use.batch, use.tokens, use.model.feed_forward)
    return use.case("SwiGLU", shape, shape, count=use.model.layers)


def rotary() -> Suite:
    """Rotary position embedding of queries and keys.

    The models' own code pairs neighbouring elements (``interleaved``); most ports of them pair the halves of a head, which
    is tagged ``halves``.

    Example:
        >>> rotary().case("llama3-8b decode 8x1 keys").arguments[0].shape
        (8, 8, 1, 128)
    """
    parts = [("queries", 1), ("keys", 1), ("queries", 0)]
    return _suite("rotary", [_rotate(use, part, interleaved) for use in _gated() for part, interleaved in parts])


def _rotate(use: _Use, part: str, interleaved: int) -> Case:
    model = use.model
    heads = model.heads if part == "queries" else model.kv_heads
    angles = (model.context, model.head // 2)
    return use.case(
        "RotaryEmbedding",
        (use.batch, heads, use.tokens, model.head),
        angles,
        angles,
        (use.batch, use.tokens),
        interleaved=interleaved,
        count=model.layers,
        suffix=f" {part}" + ("" if interleaved else " halves"),
        tags=part if interleaved else f"{part} halves",
    )


def embedding() -> Suite:
    """The rows of the embedding table that the tokens name.

    Example:
        >>> [str(a) for a in embedding().case("gpt2 prefill 1x1024").arguments]
        ['data: float32[50257, 768]', 'indices: int64[1, 1024]']
    """
    uses = [u for u in (*_encoding(), *_generating()) if u.model not in (VIT_B16, VIT_L16, LLAMA3_70B)]
    return _suite("embedding", map(_look_up, uses))


def _look_up(use: _Use) -> Case:
    table = (use.model.vocabulary, use.model.hidden)
    return use.case("Gather", table, (use.batch, use.tokens), count=1)


def softmax() -> Suite:
    """Softmax over the keys of an attention that is not fused, and over the vocabulary.

    Example:
        >>> softmax().case("bert-base encode 8x128").arguments[0].shape
        (8, 12, 128, 128)
    """
    scores = [use for use in (*_encoding(), *_generating()) if use.phase != "decode" and use.tokens <= 1024]
    words = [use for use in _generating() if use.phase == "decode" and use.model is not LLAMA3_70B]
    cases = [u.case("Softmax", (u.batch, u.model.heads, u.tokens, u.tokens), count=u.model.layers) for u in scores]
    cases += [
        u.case("Softmax", (u.batch, u.model.vocabulary), count=1, suffix=" vocabulary", tags="vocabulary") for u in words
    ]
    return _suite("softmax", cases)


def cross_entropy() -> Suite:
    """The loss of training: over the vocabulary for each token, over the 1,000 classes of ImageNet for each image.

    BERT's is of the masked tokens only, at most 20 of 128 (``max_predictions_per_seq`` in ``run_pretraining.py`` and
    ``README.md`` of github.com/google-research/bert).

    Example:
        >>> [a.shape for a in cross_entropy().case("gpt2 train 1x1024").arguments]
        [(1024, 50257), (1024,)]
    """
    uses = [
        _Use(VIT_B16, "train", 64, 1),
        _Use(BERT_BASE, "train", 8, 20),
        _Use(BERT_LARGE, "train", 8, 20),
        _Use(GPT2, "train", 1, GPT2.context),
        _Use(MISTRAL_7B, "train", 1, 512),
        _Use(LLAMA3_8B, "train", 1, 512),
    ]
    return _suite("cross_entropy", map(_lose, uses))


def _lose(use: _Use) -> Case:
    rows = use.batch * use.tokens
    return use.case("SoftmaxCrossEntropyLoss", (rows, use.model.vocabulary), (rows,), count=1)


def linear() -> Suite:
    """The matrix products with weights: queries, keys and values, what follows attention, and the feed-forward part.

    Example:
        >>> [a.shape for a in linear().case("llama3-8b decode 8x1 down").arguments]
        [(8, 1, 14336), (14336, 4096)]
    """
    return _suite("linear", [case for use in (*_encoding(), *_generating()) for case in _products(use)])


def _products(use: _Use) -> Iterator[Case]:
    model = use.model
    gated = model in _GATED
    wide, kv_width = model.heads * model.head, model.kv_heads * model.head
    products = {
        "qkv": (model.hidden, wide + 2 * kv_width, 1),
        "attended": (wide, model.hidden, 1),
        "up": (model.hidden, model.feed_forward, 2 if gated else 1),
        "down": (model.feed_forward, model.hidden, 1),
    }
    for name, (in_width, out_width, times) in products.items():
        shape = (use.batch, use.tokens, in_width)
        yield use.case("MatMul", shape, (in_width, out_width), count=times * model.layers, suffix=f" {name}", tags=name)
