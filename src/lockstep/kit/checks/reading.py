"""Rules that the text of a family's files tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from .finding import Finding
from .source import Family, Function, Source, bases, called, dotted

Rule = Callable[[Family], Iterator[Finding]]
MODULES = {"Module", "ModelMixin", "TokenModel"}  # bases whose children have layers
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "rand_like", "randn_like", "randint_like"}
DRAWS_INTO = {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_"}
TEMPORARY = {"TMPDIR", "TEMP", "TMP"}  # where the environment says that such folders are
LONGEST = 80  # of a call that is shown
BEGINS = {"set_timesteps", "_restart", "fresh", "set_state"}  # where a run begins
RUNS = {"step", "scale_model_input", "add_noise", "__call__", "forward", "combine", "prepare_inputs"}  # what it calls
OF_THE_BASE = {"history", "_step_index", "_begin_index"}  # every scheduler's, begun anew by all of them
CHANGES = {"append", "extend", "insert", "update", "add", "setdefault", "pop", "clear", "remove"}
SETS = {"setattr", "delattr", "object.__setattr__"}  # by the name of an attribute
FAMILY_FREE = {"DiffusionPipeline", "ModularPipeline", "PicturePipeline", "VideoPipeline"}


def layers_are_visible(family: Family) -> Iterator[Finding]:
    """Every layer call is in `forward` itself."""
    for source in family.models:
        for kind in source.classes:
            if not bases(kind) & MODULES and not _layers(kind):
                continue
            methods = {one.name: one for one in kind.body if isinstance(one, Function)}
            layers, forward = _layers(kind), methods.get("forward")
            for call in _calls(forward) if forward is not None else []:
                helper = methods.get(called(call).removeprefix("self.")) if called(call).startswith("self.") else None
                hidden = [one for one in _calls(helper) if _layer_of(one) in layers] if helper is not None else []
                for one in hidden:
                    assert helper is not None
                    yield Finding(
                        source.path, one.lineno,
                        f"{kind.name}.{helper.name} calls the layer {_layer_of(one)!r}, out of sight of `forward`",
                        f"call self.{_layer_of(one)}(…) in `forward`; keep {helper.name} for what has no layers",
                    )  # fmt: skip


def forward_is_torch_alone(family: Family) -> Iterator[Finding]:
    """No numpy, and no way out of the graph, where tensors are computed."""
    functions = [(source, *found) for source in family.models for found in source.functions()]
    for source, kind, function in functions:
        if kind is not None and function.name not in ("forward", "__call__"):
            continue
        for node in ast.walk(function):
            name = dotted(node) if isinstance(node, ast.Attribute) else ""
            numpy = name.startswith(("np.", "numpy.")) or name.endswith(".numpy")
            if numpy or (isinstance(node, ast.Call) and called(node).endswith((".item", ".tolist"))):
                yield Finding(
                    source.path, getattr(node, "lineno", 1),
                    f"{_owner(kind)}{function.name} leaves torch: `{ast.unparse(node)}` breaks the graph",
                    "compute it with torch, or before the model is called",
                )  # fmt: skip


def attention_is_dispatched(family: Family) -> Iterator[Finding]:
    """Attention goes through `dispatch_attention_fn`, so that every backend can compute it."""
    for source in family.models:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and called(node).endswith("scaled_dot_product_attention"):
                yield Finding(
                    source.path, node.lineno, f"`{called(node)}` is called directly: no backend can be chosen",
                    "call dispatch_attention_fn(query, key, value, backend=self._attention_backend, …)",
                )  # fmt: skip
        for kind in source.classes:
            call = next((m for m in kind.body if isinstance(m, Function) and m.name == "__call__"), None)
            if not kind.name.endswith(("Processor", "Processor2_0")) or call is None or _has_no_softmax(kind):
                continue
            own = {f"self.{m.name}" for m in kind.body if isinstance(m, Function)}
            names = [called(one) for one in _calls(call)]
            of_base = any(base.endswith("Processor") for base in bases(kind))  # whose method may dispatch
            handed_on = of_base and any(name.startswith("self.") and name not in own for name in names)
            if not handed_on and not any(name.endswith("dispatch_attention_fn") for name in names):
                yield Finding(
                    source.path, kind.lineno, f"{kind.name} does not call dispatch_attention_fn",
                    "hand query, key and value (BLHK) to it, with backend=self._attention_backend; linear attention, "
                    "which no backend computes, says `has_softmax = False` in its class",
                )  # fmt: skip


def _has_no_softmax(kind: ast.ClassDef) -> bool:
    """Whether a processor says that it computes another attention than the backends do."""
    said = [
        node for node in kind.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "has_softmax"
    ]
    return any(isinstance(node.value, ast.Constant) and node.value.value is False for node in said)


def processors_are_declared(family: Family) -> Iterator[Finding]:
    """An attention class says which processors it has, and they are beside it."""
    attentions = [(one, kind) for one in family.models for kind in one.classes if "AttentionModuleMixin" in bases(kind)]
    for source, kind in attentions:
        given = {dotted(t): node for node in kind.body if isinstance(node, ast.Assign) for t in node.targets}
        problems = [
            (kind.lineno, f"{kind.name} does not declare {name}", f"add `{name} = …` with the processor of this file")
            for name in ("_default_processor_cls", "_available_processors")
            if name not in given
        ]
        named = given.get("_default_processor_cls")
        if named is not None and dotted(named.value) not in {one.name for one in source.classes}:
            missing = f"{dotted(named.value)} is not defined in the model's file"
            problems.append((named.lineno, missing, "define the processor beside the attention class that uses it"))
        yield from (Finding(source.path, *problem) for problem in problems)


def draws_follow_the_generator(family: Family) -> Iterator[Finding]:
    """Random numbers come from the generator of the call, never from the global state."""
    for source in family.code:
        starts = _start_values(source)
        for node in ast.walk(source.tree):
            told = _draws_elsewhere(node, source) if isinstance(node, ast.Call) and node not in starts else ""
            if told:
                yield Finding(
                    source.path, getattr(node, "lineno", 1), f"`{ast.unparse(node)[:LONGEST]}` {told}",
                    "draw with lockstep.blocks.randn_tensor(shape, state.generator, …)", pitfall=1,
                )  # fmt: skip


def _draws_elsewhere(call: ast.Call, source: Source) -> str:
    """In what a call draws, if it is not the generator that a run is given; empty for all other calls."""
    room, _, name = source.meant(call).rpartition(".")
    given = {word.arg: word.value for word in call.keywords}
    drawn = (room == "torch" and name in DRAWS) or (name in DRAWS_INTO and not room.endswith("init"))
    seeded = name == "MultivariateNormal" or (room, name) == ("torch", "manual_seed")
    if (drawn and "generator" not in given) or seeded or (room in ("numpy.random", "random") and name.islower()):
        return "draws from the global random numbers"
    if name == "sample" and ast.unparse(call.func).endswith("latent_dist.sample") and not call.args and not given:
        return "draws from the global random numbers"
    if source.meant(call) == "torch.Generator":
        return "makes a generator of its own, where a run is given one"
    generator = given.get("generator", call.args[1] if len(call.args) > 1 else None)
    if name == "randn_tensor" and (generator is None or ast.unparse(generator) == "None"):
        return "draws from the global random numbers: it is told no generator"
    return ""


def nothing_is_left_to_the_next_run(family: Family) -> Iterator[Finding]:
    """What changes lives in the run: no state in classes, in modules, behind `global`, or where no run begins it."""
    for source in family.code:
        shared = {kind.name: _mutable(kind.body) for kind in source.classes}
        at_top = _mutable(source.tree.body)
        for kind, function in source.functions():
            inherited = set(shared.get(kind.name, ())) if kind is not None else set()
            classes = tuple(f"{name}." for name in shared)
            kept = _kept_by(kind, function, _is_block(source, family)) if kind is not None else set()
            for node in ast.walk(function):
                name = _changed(node)
                own = name.removeprefix("self.").removeprefix("type(self).").removeprefix("cls.")
                of_class = name.startswith(("type(self).", "cls.", *classes)) or (name != own and own in inherited)
                if isinstance(node, ast.Global) or of_class or name in at_top or node in kept:
                    what = ", ".join(node.names) if isinstance(node, ast.Global) else name or _attribute(node)
                    yield Finding(
                        source.path, getattr(node, "lineno", 1),
                        f"{_owner(kind)}{function.name} changes `{what}`, which every later run finds changed",
                        "keep it on the object and begin it anew in set_timesteps, set_state or fresh; a block keeps "
                        "what it computes in the state", pitfall=9 if source.path == family.file("guider") else 7,
                    )  # fmt: skip


def _is_block(source: Source, family: Family) -> bool:
    """Whether a file holds blocks, whose every method is called by runs."""
    return source.path.parent == family.home.file("family", family.name).parent and source.path.name != "pipeline.py"


def _kept_by(kind: ast.ClassDef, function: Function, is_block: bool) -> set[ast.AST]:
    """Where a method that runs call changes attributes of its object that no begin of a run begins anew."""
    methods = {one.name: one for one in kind.body if isinstance(one, Function)}
    called_by_runs = {name for name in methods if name != "__init__"} if is_block else _reached(RUNS, methods)
    begins = _reached(BEGINS, methods)
    if function.name not in called_by_runs - begins:
        return set()
    renewed = {_attribute(node) for name in begins for node in ast.walk(methods[name])}
    renewed |= {f"self.{name}" for name in OF_THE_BASE}
    return {node for node in ast.walk(function) if _attribute(node) and _attribute(node) not in renewed}


def _reached(names: set[str], methods: Mapping[str, Function]) -> set[str]:
    """Those of some methods that a class has, and those of its methods that they call."""
    found: set[str] = set()
    waiting = [name for name in names if name in methods]
    while waiting:
        name = waiting.pop()
        found.add(name)
        own = [called(one).removeprefix("self.") for one in _calls(methods[name]) if called(one).startswith("self.")]
        waiting += [one for one in own if one in methods and one not in found]
    return found


def _attribute(node: ast.AST) -> str:
    """`self.seen` where a node changes it: gives it a value, adds to it, puts something into it, sets it by name."""
    if isinstance(node, ast.Call) and called(node) in SETS and node.args and dotted(node.args[0]) == "self":
        name = node.args[1] if len(node.args) > 1 else None
        return f"self.{name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else '…'}"
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else targets
    given = [_written(target) for target in targets if isinstance(target, ast.Attribute)]
    return next((name for name in (*given, _changed(node)) if name.startswith("self.") and name.count(".") == 1), "")


def nothing_lies_in_a_temporary_folder(family: Family) -> Iterator[Finding]:
    """Converted weights and proofs lie where a restart leaves them."""
    remedy = "keep weights in a folder of the project, or read them from the original file"
    sources = [*family.code, *family.tests]
    nodes = [(source.path, node) for source in sources for node in ast.walk(source.tree)]
    by_path = {source.path: source for source in sources}
    ends = {
        item.context_expr for _, node in nodes if isinstance(node, ast.With) for item in node.items
    }  # with the block
    for path, node in nodes:
        if _is_temporary(node, by_path[path]) and node not in ends:
            told = f"`{ast.unparse(node)}` is in a folder that a restart empties"
            yield Finding(path, getattr(node, "lineno", 1), told, remedy, pitfall=10)


def pipelines_stand_alone(family: Family) -> Iterator[Finding]:
    """A pipeline is put together of blocks; it is no child of another family's pipeline."""
    for source in family.code:
        for kind in source.classes:
            others = {base for base in bases(kind) if base.endswith("Pipeline")} - FAMILY_FREE
            for base in sorted(others - {one.name for one in source.classes}):
                yield Finding(
                    source.path, kind.lineno, f"{kind.name} is made from {base}, another family's pipeline",
                    "inherit from PicturePipeline and share blocks instead",
                )  # fmt: skip


def _start_values(source: Source) -> set[ast.Call]:
    """What `__init__` of a module draws: start values of weights, which training or a file replaces."""
    starts = (function for kind, function in source.functions() if kind is not None and function.name == "__init__")
    return {call for function in starts for call in _calls(function)}


def _is_temporary(node: ast.AST, source: Source) -> bool:
    written = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    made = isinstance(node, ast.Call) and source.meant(node).startswith("tempfile.")
    return made or written in TEMPORARY or written.startswith(("/tmp", "/var/tmp", "/dev/shm"))


def _owner(kind: ast.ClassDef | None) -> str:
    return f"{kind.name}." if kind is not None else ""


def _calls(function: Function) -> list[ast.Call]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Call)]


def _layers(kind: ast.ClassDef) -> set[str]:
    """Names that `__init__` gives to layers: `self.norm = nn.LayerNorm(…)`."""
    found: set[str] = set()
    for function in (one for one in kind.body if isinstance(one, Function) and one.name == "__init__"):
        for node in ast.walk(function):
            made = node.value if isinstance(node, ast.Assign) else None
            if isinstance(made, ast.Call) and called(made).rpartition(".")[2][:1].isupper():
                found |= {dotted(target).removeprefix("self.") for target in node.targets}  # type: ignore[attr-defined]
    return found


def _layer_of(call: ast.Call) -> str:
    """`norm` of `self.norm(x)` and `to_out` of `self.to_out[0](x)`."""
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    name = dotted(function)
    return name.removeprefix("self.") if name.startswith("self.") else ""


def _mutable(body: list[ast.stmt]) -> set[str]:
    """Names that a class or a module gives to lists, dicts and sets."""
    found = set()
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        empty = isinstance(value, ast.Call) and called(value) in ("list", "dict", "set")
        if empty or isinstance(value, (ast.List, ast.Dict, ast.Set)):
            found |= {dotted(target) for target in targets}
    return found


def _changed(node: ast.AST) -> str:
    """The dotted name that a node changes: by a method that changes, by an assignment to a part or an attribute."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        return _written(node.func.value)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    for target in targets:
        if isinstance(target, ast.Subscript):
            return _written(target.value)
        if isinstance(target, ast.Attribute) and not _written(target).startswith("self."):
            return _written(target)
    return ""


def _written(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


RULES: dict[str, Rule] = {
    "layer calls are visible in forward": layers_are_visible,
    "forward is torch alone": forward_is_torch_alone,
    "attention is dispatched": attention_is_dispatched,
    "processors are declared": processors_are_declared,
    "draws follow the generator": draws_follow_the_generator,
    "nothing is left to the next run": nothing_is_left_to_the_next_run,
    "nothing lies in a temporary folder": nothing_lies_in_a_temporary_folder,
    "pipelines stand alone": pipelines_stand_alone,
}
