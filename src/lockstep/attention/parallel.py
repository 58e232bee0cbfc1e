"""One attention over several ranks, each of which has some of the tokens and gets what its own queries mix.

Ulysses (arXiv:2309.14509) trades tokens for heads: every rank computes some heads over all tokens, as one process does.
The ring (arXiv:2310.01889) hands keys and values from rank to rank and merges what each block gave by its log-sum-exp.
Both at once: Ulysses among neighbours, the ring between such groups. Lengths and heads need not divide evenly.

Axes: B batch, S tokens of this rank, L tokens of several, H heads, D head width. Tensors are BSHD, masks BHLL.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from ..errors import BackendError, InputError
from .kernels import AttentionCall, WithLse, records_gradient

Tensor = torch.Tensor
Lengths = tuple[int, ...]  # tokens of one kind on each rank


@dataclass(frozen=True)
class RankGroup:
    """Ranks that exchange tensors with each other, and this one's place among them."""

    handle: dist.ProcessGroup | None = None
    size: int = 1
    place: int = 0


def unguarded(_: str) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


@dataclass(frozen=True)
class SequenceParallel:
    """What a processor hands on as `parallel_config`: who shares the tokens, and how many of them each one has.

    `lengths()` gives the tokens of each kind (text, picture) on each rank, in the order in which the kinds lie there;
    without it the ranks ask each other at every call. In cross-attention every rank has all keys (`splits_keys` off).
    The place in `tokens` is that in the ring, times the size of a Ulysses group, plus that in the group.
    """

    tokens: RankGroup
    ulysses: RankGroup = RankGroup()
    ring: RankGroup = RankGroup()
    lengths: Callable[[], tuple[Lengths, ...]] | None = None
    splits_keys: bool = True
    guard: Callable[[str], AbstractContextManager[None]] = unguarded

    def total(self, kind: int, own: int) -> int:
        """Tokens of a kind on all ranks, where this one has `own`."""
        return own if self.lengths is None else sum(self.lengths()[kind])

    def block(self, place: int) -> range:
        """The ranks whose tokens are together at a place of the ring."""
        return range(place * self.ulysses.size, (place + 1) * self.ulysses.size)


@dataclass(frozen=True)
class StreamLayout:
    """Which tokens lie where: those of a kind follow each other in the order of the ranks, the kinds one behind the
    other."""

    lengths: tuple[Lengths, ...]

    @property
    def total(self) -> int:
        return sum(map(sum, self.lengths))

    def on(self, rank: int) -> list[int]:
        """Tokens of each kind on a rank."""
        return [kind[rank] for kind in self.lengths]

    def count(self, ranks: Sequence[int]) -> int:
        return sum(sum(self.on(rank)) for rank in ranks)

    def join(self, pieces: Sequence[Tensor], ranks: Sequence[int]) -> Tensor:
        """The tokens of some ranks, kind by kind."""
        by_kind = zip(
            *(piece.split(self.on(rank), dim=1) for piece, rank in zip(pieces, ranks, strict=True)), strict=True
        )
        return torch.cat([part for kind in by_kind for part in kind], dim=1)

    def part(self, joined: Tensor, ranks: Sequence[int]) -> list[Tensor]:
        """What `join` put together, for each of the ranks."""
        parts = joined.split([kind[rank] for kind in self.lengths for rank in ranks], dim=1)
        return [torch.cat(parts[place :: len(ranks)], dim=1) for place in range(len(ranks))]

    def positions(self, ranks: Sequence[int], device: torch.device) -> Tensor:
        """Where the tokens that `join` puts together lie in the whole sequence."""
        found, start = [], 0
        for kind in self.lengths:
            starts = [start + sum(kind[:rank]) for rank in ranks]
            found += [
                torch.arange(first, first + kind[rank], device=device)
                for first, rank in zip(starts, ranks, strict=True)
            ]
            start += sum(kind)
        return torch.cat(found)


def shares(total: int, ranks: int) -> Lengths:
    """How many each rank gets: as equal as can be, the first ones get one more."""
    return tuple(total // ranks + (rank < total % ranks) for rank in range(ranks))


def attend(
    call: AttentionCall, config: SequenceParallel, run: Callable[[AttentionCall], Tensor], run_with_lse: WithLse | None
) -> Tensor:
    """What this rank's queries mix; `run` is a backend, `run_with_lse` the same with the log-sum-exp of the scores."""
    if records_gradient(*call.tensors()) or call.dropout_p > 0.0:
        raise BackendError("Attention over several ranks has no gradient and no dropout. Use torch.no_grad().")
    if not config.splits_keys and (call.attn_mask is None or call.attn_mask.shape[2] == 1):
        return run(call)  # all keys are here, and every query sees the same of them
    layout = layout_of(call, config)
    if not config.splits_keys:
        own = layout.positions([config.tokens.place], call.query.device)
        return run(replace(call, attn_mask=cut_mask(call.attn_mask, own, None)))
    if config.ring.size > 1 and run_with_lse is None:
        raise BackendError("This attention backend gives no log-sum-exp, which a ring needs. Use 'native', or Ulysses.")
    if call.key.shape[2] < config.ulysses.size:
        raise BackendError(
            f"Ulysses over {config.ulysses.size} ranks wants a head for each of them, this attention has "
            f"{call.key.shape[2]}. Use a smaller `ulysses`, and `ring` for the rest."
        )

    by_rank = head_shares(call.query.shape[2], call.key.shape[2], config.ulysses.size)
    inner = replace(over_heads(call, layout, config), attn_mask=mask_of_heads(call.attn_mask, by_rank, config))
    mixed = run(inner) if config.ring.size == 1 or run_with_lse is None else ring(inner, layout, config, run_with_lse)
    return over_tokens(mixed, layout, config, by_rank)


def layout_of(call: AttentionCall, config: SequenceParallel) -> StreamLayout:
    """Which rank has which tokens, checked against what this one was given."""
    query, key = call.query.shape[1], call.key.shape[1]
    if config.lengths is not None:
        layout = StreamLayout(config.lengths())
    else:
        counts = torch.zeros(config.tokens.size, dtype=torch.int64, device=call.query.device)
        counts[config.tokens.place] = query
        with config.guard("lengths of the sequence"):
            dist.all_reduce(counts, group=config.tokens.handle)
        layout = StreamLayout((tuple(counts.tolist()),))
    wanted = layout.count([config.tokens.place])
    if query != wanted or (config.splits_keys and key != wanted):
        raise InputError(
            f"Attention over {config.tokens.size} ranks wants {wanted} tokens of this rank's share, got {query} "
            f"queries and {key} keys."
        )
    tokens = layout.total if config.splits_keys else key
    mask = call.attn_mask
    if mask is not None and (mask.shape[2] not in (1, layout.total) or mask.shape[3] not in (1, tokens)):
        raise InputError(
            f"Attention over several ranks wants the mask of the whole sequence, ({layout.total}, {tokens}) queries "
            f"and keys, got {tuple(mask.shape[2:])}."
        )
    return layout


# ---- masks ----


def cut_mask(mask: Tensor | None, rows: Tensor | None, columns: Tensor | None) -> Tensor | None:
    """The mask of some queries and some keys, by their positions in the whole sequence."""
    if mask is not None and rows is not None and mask.shape[2] != 1:
        mask = mask.index_select(2, rows)
    if mask is not None and columns is not None and mask.shape[3] != 1:
        mask = mask.index_select(3, columns)
    return mask


def mask_of_heads(mask: Tensor | None, by_rank: Lengths, config: SequenceParallel) -> Tensor | None:
    """The mask of this rank's share of the heads."""
    if mask is None or mask.shape[1] == 1:
        return mask
    return mask.split(list(by_rank), dim=1)[config.ulysses.place]


# ---- Ulysses ----


def head_shares(heads: int, key_heads: int, ranks: int) -> Lengths:
    """Heads for each rank; query heads that share a key stay together."""
    return tuple(share * (heads // key_heads) for share in shares(key_heads, ranks))


def over_heads(call: AttentionCall, layout: StreamLayout, config: SequenceParallel) -> AttentionCall:
    """The call for this rank's share of the heads and the tokens of all ranks of the group."""
    group, ranks = config.ulysses, config.block(config.ring.place)
    if group.size == 1:
        return call
    batch, key_heads = call.key.shape[0], call.key.shape[2]
    heads = [head_shares(one.shape[2], key_heads, group.size) for one in call.tensors()]
    cut = [one.split(list(by_rank), dim=2) for one, by_rank in zip(call.tensors(), heads, strict=True)]
    sent = [torch.cat([pieces[other].reshape(-1) for pieces in cut]) for other in range(group.size)]
    widths = [
        (by_rank[group.place], one.shape[3]) for one, by_rank in zip(call.tensors(), heads, strict=True)
    ]  # of what comes: heads and numbers in each
    counts = [layout.count([rank]) for rank in ranks]
    sizes = [[batch * count * many * width for many, width in widths] for count in counts]
    pieces_by_rank = [
        [flat.view(batch, count, *shape) for flat, shape in zip(got.split(size), widths, strict=True)]
        for got, size, count in zip(exchange(sent, [sum(one) for one in sizes], config), sizes, counts, strict=True)
    ]
    query, key, value = (layout.join(pieces, ranks) for pieces in zip(*pieces_by_rank, strict=True))
    return replace(call, query=query, key=key, value=value)


def over_tokens(mixed: Tensor, layout: StreamLayout, config: SequenceParallel, by_rank: Lengths) -> Tensor:
    """From some heads of the group's tokens back to all heads of this rank's tokens."""
    if config.ulysses.size == 1:
        return mixed
    batch, _, _, width = mixed.shape
    tokens = layout.count([config.tokens.place])
    sent = [piece.reshape(-1) for piece in layout.part(mixed, config.block(config.ring.place))]
    got = exchange(sent, [batch * tokens * heads * width for heads in by_rank], config)
    pieces = [flat.view(batch, tokens, heads, width) for flat, heads in zip(got, by_rank, strict=True)]
    return torch.cat(pieces, dim=2)


def exchange(sent: Sequence[Tensor], sizes: list[int], config: SequenceParallel) -> Sequence[Tensor]:
    """One piece to each rank of the Ulysses group, and one of so many numbers from each."""
    got = sent[0].new_empty(sum(sizes))
    lengths = [one.numel() for one in sent]
    with config.guard("Ulysses attention"):
        dist.all_to_all_single(got, torch.cat(list(sent)), sizes, lengths, group=config.ulysses.handle)
    return got.split(sizes)


# ---- ring ----


def ring(call: AttentionCall, layout: StreamLayout, config: SequenceParallel, run: WithLse) -> Tensor:
    """Block after block of keys and values, as they come round; the next one travels while this one is computed."""
    group, device = config.ring, call.query.device
    rows = layout.positions(config.block(group.place), device)
    held = (call.key, call.value)
    mixed: Tensor | None = None
    lse = torch.empty(0)
    for turn in range(group.size):
        owner = (group.place - turn) % group.size
        coming = Coming(held, layout, config, (owner - 1) % group.size) if turn + 1 < group.size else None
        if held[0].shape[1]:
            columns = layout.positions(config.block(owner), device)
            mask = causal(rows, columns) if call.is_causal else cut_mask(call.attn_mask, rows, columns)
            part, part_lse = run(replace(call, key=held[0], value=held[1], attn_mask=mask, is_causal=False))
            mixed, lse = (part, part_lse) if mixed is None else merged(mixed, lse, part, part_lse)
        if coming is not None:
            held = coming.wait()
    assert mixed is not None  # the whole sequence has tokens
    return mixed.to(call.query.dtype)


class Coming:
    """Keys and values on their way from the rank before to this one, and on to the next."""

    def __init__(self, held: tuple[Tensor, Tensor], layout: StreamLayout, config: SequenceParallel, owner: int) -> None:
        self._guard = config.guard
        tokens = layout.count(config.block(owner))
        self._shapes = [(one.shape[0], tokens, *one.shape[2:]) for one in held]
        sent = torch.cat([one.reshape(-1) for one in held])
        self._got = sent.new_empty(sum(torch.Size(shape).numel() for shape in self._shapes))
        group = config.ring
        wishes = []
        for one, send, step in ((sent, dist.isend, 1), (self._got, dist.irecv, -1)):
            if one.numel():  # a rank without tokens sends nothing
                peer = (group.place + step) % group.size
                wishes.append(dist.P2POp(send, one, group=group.handle, group_peer=peer))
        with self._guard("ring attention"):
            self._works = dist.batch_isend_irecv(wishes) if wishes else []

    def wait(self) -> tuple[Tensor, Tensor]:
        with self._guard("ring attention"):
            for work in self._works:
                work.wait()
        key, value = self._got.split([torch.Size(shape).numel() for shape in self._shapes])
        return key.view(self._shapes[0]), value.view(self._shapes[1])


def causal(rows: Tensor, columns: Tensor) -> Tensor:
    """Which of these positions see which."""
    return (rows[:, None] >= columns)[None, None]


def merged(mixed: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Two mixes of the same queries (BSHD) over different keys as one, weighed by their log-sum-exps (BSH)."""
    both = torch.logaddexp(lse, other_lse)
    nothing = both == -torch.inf  # where neither saw a key
    weight, other_weight = ((one - both).exp().masked_fill(nothing, 0.0)[..., None] for one in (lse, other_lse))
    return mixed * weight + other * other_weight, both
