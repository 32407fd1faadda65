"""The two models, with random weights: what they cost is that of their shape, and no answer is read.

A decoder of Qwen's shape (grouped attention, gated feed-forward, rotary positions) and a cross-encoder of the
shape of XLM-R-large. They are eager PyTorch: no compiled kernels, no paged cache, no continuous batching.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Decoder:
    """Shape of a decoder."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed: int
    vocabulary: int

    @property
    def head(self):
        return self.hidden // self.heads


@dataclass(frozen=True)
class Encoder:
    """Shape of a cross-encoder."""

    name: str
    layers: int
    hidden: int
    heads: int
    feed: int
    vocabulary: int


DECODERS = {
    "7b": Decoder("7b", 28, 3584, 28, 4, 18944, 152064),
    "1.5b": Decoder("1.5b", 28, 1536, 12, 2, 8960, 151936),
    "tiny": Decoder("tiny", 2, 64, 4, 2, 128, 512),
}
ENCODERS = {
    "large": Encoder("large", 24, 1024, 16, 4096, 250002),
    "tiny": Encoder("tiny", 2, 64, 4, 128, 512),
}


def weight(device, dtype, *shape):
    return torch.randn(shape, device=device, dtype=dtype) * 0.02


class KeyValues:
    """Room for keys and values of a batch: a piece of an arena, or memory asked for now."""

    def __init__(self, shape, batch, length, device, dtype, arena=None):
        self.tensors = []
        count = batch * shape.kv_heads * length * shape.head
        for layer in range(2 * shape.layers):
            if arena is None:
                flat = torch.empty(count, device=device, dtype=dtype)
            else:
                flat = arena[layer * count : (layer + 1) * count]
                if flat.numel() < count:
                    raise MemoryError("the arena is smaller than this batch's keys and values")
            self.tensors.append(flat.view(batch, shape.kv_heads, length, shape.head))

    def of(self, layer):
        return self.tensors[2 * layer], self.tensors[2 * layer + 1]


class DecoderModel:
    """A decoder that runs one step: a prompt, or one token for each of a batch."""

    def __init__(self, shape, device, dtype, longest):
        self.shape = shape
        queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
        make = lambda *sizes: weight(device, dtype, *sizes)
        self.embedding = make(shape.vocabulary, shape.hidden)
        self.unembedding = make(shape.vocabulary, shape.hidden)
        self.layers = [
            {
                "norm1": torch.ones(shape.hidden, device=device, dtype=dtype),
                "norm2": torch.ones(shape.hidden, device=device, dtype=dtype),
                "query": make(queries, shape.hidden),
                "key": make(keys, shape.hidden),
                "value": make(keys, shape.hidden),
                "out": make(shape.hidden, queries),
                "gate": make(shape.feed, shape.hidden),
                "up": make(shape.feed, shape.hidden),
                "down": make(shape.hidden, shape.feed),
            }
            for _ in range(shape.layers)
        ]
        rate = 1e6 ** (-torch.arange(0, shape.head, 2, device=device).float() / shape.head)
        angle = torch.outer(torch.arange(longest, device=device).float(), rate)
        self.cos, self.sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def rotate(self, x, start):
        length = x.shape[2]
        cos, sin = self.cos[start : start + length], self.sin[start : start + length]
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)

    def step(self, tokens, cache, context):
        """Logits of the last position; `tokens` is batch x new, `context` how many came before."""
        shape, (batch, new) = self.shape, tokens.shape
        x = F.embedding(tokens, self.embedding)
        for number, layer in enumerate(self.layers):
            y = F.rms_norm(x, (shape.hidden,), layer["norm1"])
            split = lambda name, heads: F.linear(y, layer[name]).view(batch, new, heads, shape.head).transpose(1, 2)
            query = self.rotate(split("query", shape.heads), context)
            keys, values = cache.of(number)
            keys[:, :, context : context + new] = self.rotate(split("key", shape.kv_heads), context)
            values[:, :, context : context + new] = split("value", shape.kv_heads)
            attended = F.scaled_dot_product_attention(
                query,
                keys[:, :, : context + new],
                values[:, :, : context + new],
                is_causal=new > 1,
                enable_gqa=True,
            )
            x = x + F.linear(attended.transpose(1, 2).reshape(batch, new, -1), layer["out"])
            y = F.rms_norm(x, (shape.hidden,), layer["norm2"])
            x = x + F.linear(F.silu(F.linear(y, layer["gate"])) * F.linear(y, layer["up"]), layer["down"])
        return F.linear(x[:, -1], self.unembedding)


class EncoderModel:
    """A cross-encoder: one score for each pair of texts."""

    def __init__(self, shape, device, dtype, longest):
        self.shape = shape
        make = lambda *sizes: weight(device, dtype, *sizes)
        self.embedding, self.places = make(shape.vocabulary, shape.hidden), make(longest, shape.hidden)
        self.layers = [
            {
                "qkv": make(3 * shape.hidden, shape.hidden),
                "out": make(shape.hidden, shape.hidden),
                "up": make(shape.feed, shape.hidden),
                "down": make(shape.hidden, shape.feed),
            }
            for _ in range(shape.layers)
        ]
        self.score, self.last = make(shape.hidden, shape.hidden), make(1, shape.hidden)

    def step(self, tokens):
        shape, (batch, length) = self.shape, tokens.shape
        norm = lambda x: F.layer_norm(x, (shape.hidden,))
        x = norm(F.embedding(tokens, self.embedding) + self.places[:length])
        for layer in self.layers:
            qkv = F.linear(x, layer["qkv"]).view(batch, length, 3, shape.heads, -1)
            query, key, value = qkv.permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(query, key, value)
            x = norm(x + F.linear(attended.transpose(1, 2).reshape(batch, length, -1), layer["out"]))
            x = norm(x + F.linear(F.gelu(F.linear(x, layer["up"])), layer["down"]))
        return F.linear(torch.tanh(F.linear(x[:, 0], self.score)), self.last)
