// Blocks: the pipeline as it runs, the value at each boundary; stop there, look, change it, go on.

import { ask, send, tensors } from "./api.js";
import { button, fill, h, icon, newId, problem, seconds } from "./dom.js";
import { draft } from "./draft.js";
import { labelled, select } from "./fields.js";
import { boundaries, nextBoundary, numbered, plain, stepIn, tree, workflowOf } from "./flow.js";
import { livePicture, shown } from "./media.js";
import { cancel } from "./queue.js";
import { ENDED, aside, promptOf, results, store } from "./store.js";
import { editor, isTensor, said } from "./values.js";

const stateOf = (job) => (job.result?.stopped_at ? `stopped at ${job.result.stopped_at}` : job.state);

export class StudioBlocks extends HTMLElement {
  connectedCallback() {
    this.gone = new AbortController();
    this.step = 0;
    this.cards = new Map();
    this.forget();
    store.hear("jobs", ({ job }) => job && this.heard(job), this.gone.signal);
    store.hear(["block", "step"], (id) => id === this.job?.id && this.live(), this.gone.signal);
    store.hear("preview", (id) => id === this.job?.id && this.drawPicture(), this.gone.signal);
  }

  disconnectedCallback() {
    this.gone.abort();
  }

  async go([id]) {
    const job = id
      ? await store.job(id).catch(() => null)
      : (store.open.find((one) => one.state === "running") ?? store.list()[0] ?? null);
    await this.take(job);
  }

  /** What is known of one job alone. */
  forget() {
    this.edits = new Map();
    this.looks = new Map();
    this.numbers = null;
    this.follows = true;
  }

  /** Show a job, or where there is none the blocks that the form would run. */
  async take(job) {
    const other = job?.id !== this.job?.id;
    this.job = job;
    this.schema = job ? await store.schema(job.model) : draft.schema;
    this.workflow = job ? workflowOf(this.schema, job.request) : draft.workflow;
    this.flow = this.schema.blocks[this.workflow];
    this.steps = job ? job.request.steps : draft.steps;
    if (other) this.forget();
    const at = this.stoppedAt;
    if (at) this.select(at, false);
    else if (other) this.selected = null;
    await this.load();
    this.draw();
  }

  get stoppedAt() {
    return this.job?.state === "done" ? this.job.result?.stopped_at : undefined;
  }

  /** What is known of a job that has ended: its trace, and the numbers at the boundary where it stopped. */
  async load() {
    const { job } = this;
    if (!job || !ENDED.includes(job.state)) return;
    try {
      if (aside(job, "trace") && !this.looks.size) {
        const found = await ask(`/api/jobs/${job.id}/boundaries`);
        for (const value of found.values) {
          const step = value.step.split(":").pop(),
            block = this.flow.blocks.find((one) => one.path === value.path);
          const path = value.step === "-" || !block ? value.path : numbered(block, Number(step));
          this.looks.set(path, { ...this.looks.get(path), [value.name]: value });
        }
      }
      const held = aside(job, "values") ?? aside(job, "trace");
      if (held && !this.numbers) this.numbers = await tensors(held.url);
    } catch (error) {
      problem(error);
    }
  }

  heard(job) {
    if (job.id === this.job?.id && (job.state !== this.job.state || job.outputs.length !== this.job.outputs.length))
      this.take(job);
  }

  look(path) {
    return this.looks.get(path) ?? store.walks.get(this.job?.id)?.values.get(path);
  }

  time(path) {
    return store.walks.get(this.job?.id)?.seconds.get(path);
  }

  // ---- the graph ----

  draw() {
    this.cards.clear();
    this.inspector = h("section", { class: "inspector panel", "aria-label": "At this boundary" });
    this.picture = h("div", { class: "block-picture" });
    this.graph = h(
      "ol",
      { class: "flow", "aria-label": `Blocks of ${this.workflow}` },
      tree(this.flow.blocks).map((node) => this.node(node)),
    );
    fill(
      this,
      this.head(),
      h("div", { class: "blocks-view" }, this.graph, h("div", { class: "blocks-side" }, this.picture, this.inspector)),
    );
    this.drawPicture();
    this.live();
    this.inspect();
  }

  head() {
    const jobs = store.list().slice(0, 40);
    const names = jobs.map((job) => [job.id, `${promptOf(job) || job.model} · ${stateOf(job)}`]);
    const runs = select(newId("job"), this.job ? names : [["", "the form"], ...names], this.job?.id, (id) => {
      location.hash = id ? `#/blocks/${id}` : "#/blocks";
    });
    runs.className = "job-select";
    const field = labelled("Run", runs);
    field.classList.add("inline-field");
    return h(
      "div",
      { class: "toolbar" },
      field,
      h("span", { class: "muted small" }, `${this.schema.pipeline} · ${this.workflow}`),
      h("span", { class: "grow" }),
      this.job && !ENDED.includes(this.job.state) && button("stop", () => cancel(this.job), { label: "Cancel" }),
    );
  }

  node(node) {
    return node.inside ? this.loop(node) : this.leaf(node.block);
  }

  leaf(block) {
    const inLoop = block.loops.length > 0;
    const parts = {
      dot: h("span", { class: "dot" }),
      time: h("span", { class: "muted small number" }),
      values: h("div", { class: "block-values" }),
      block,
    };
    const name = block.path.split(".").pop().replaceAll("_", " ");
    parts.root = h(
      "button",
      {
        type: "button",
        class: "block",
        title: block.description,
        "data-path": block.path,
        onclick: () => this.select(numbered(block, this.step)),
      },
      h(
        "span",
        { class: "block-head" },
        parts.dot,
        h("b", {}, name),
        h("code", { class: "muted small clip" }, block.class),
        parts.time,
      ),
      parts.values,
    );
    this.cards.set(block.path, parts);
    return h("li", { class: inLoop ? "inside" : "" }, parts.root);
  }

  loop({ block, inside }) {
    const id = newId("step"),
      parts = {};
    parts.range = h("input", {
      id,
      type: "range",
      min: 0,
      max: Math.max(0, this.steps - 1),
      value: this.step,
      oninput: (event) => {
        this.follows = false;
        this.at(Number(event.target.value));
      },
    });
    parts.said = h("output", { for: id, class: "number" });
    parts.after = h("button", {
      type: "button",
      class: "block after",
      onclick: () => this.select(`after_step_${this.step}`),
    });
    this.loopParts = parts;
    return h(
      "li",
      { class: "loop" },
      h(
        "div",
        { class: "loop-head" },
        h("b", {}, block.path.split(".").pop()),
        h("code", { class: "muted small" }, block.class),
        h("label", { for: id, class: "sr-only" }, "Step"),
        parts.range,
        parts.said,
      ),
      h(
        "ol",
        { class: "flow" },
        inside.map((node) => this.node(node)),
        h("li", {}, parts.after),
      ),
    );
  }

  at(step) {
    this.step = step;
    if (this.selected && stepIn(this.selected) !== null) this.selected = numbered(this.blockOf(this.selected), step);
    if (this.selected?.startsWith("after_step_")) this.selected = `after_step_${step}`;
    this.live();
    this.inspect();
  }

  blockOf(name) {
    return this.flow.blocks.find((block) => block.path === plain(name));
  }

  /** The graph as the run stands now. */
  live() {
    const walk = store.walks.get(this.job?.id),
      runs = this.job?.state === "running";
    const current = runs ? walk?.current : null;
    if (current && this.follows && stepIn(current) !== null) this.step = stepIn(current);
    if (this.loopParts) {
      this.loopParts.range.value = this.step;
      this.loopParts.said.textContent = `step ${this.step + 1} of ${this.steps}`;
      fill(
        this.loopParts.after,
        h(
          "span",
          { class: "block-head" },
          h("span", { class: "dot ring" }),
          h("span", {}, `after step ${this.step + 1}`),
        ),
      );
      this.mark(this.loopParts.after, `after_step_${this.step}`);
    }
    for (const [path, parts] of this.cards) {
      const name = numbered(parts.block, this.step),
        look = this.look(name),
        time = this.time(name);
      parts.root.classList.toggle("runs", current === name);
      parts.root.classList.toggle("done", Boolean(look) || time !== undefined || this.isPast(name));
      parts.time.textContent = time === undefined ? "" : seconds(time);
      const shownValues = Object.entries(look ?? {})
        .filter(([, one]) => isTensor(one))
        .slice(0, 3);
      const rows = shownValues.length
        ? shownValues.map(([key, one]) => [key, said(one)])
        : parts.block.makes.slice(0, 3).map((key) => [key, ""]);
      fill(
        parts.values,
        rows.map(([key, text]) =>
          h("span", { class: "value-chip" }, h("span", {}, key), text && h("span", { class: "muted number" }, text)),
        ),
      );
      this.mark(parts.root, name);
    }
    if (runs && this.selected) this.inspect();
  }

  /** Whether a run that has ended came by. */
  isPast(name) {
    if (this.job?.state !== "done") return false;
    const all = boundaries(this.flow.blocks, this.steps),
      at = this.stoppedAt;
    return !at || (all.indexOf(at) >= 0 && all.indexOf(name) <= all.indexOf(at));
  }

  mark(element, name) {
    element.setAttribute("aria-pressed", String(this.selected === name));
    element.classList.toggle("stopped", this.stoppedAt === name);
    element.classList.toggle("edited", Boolean(this.job?.request.edits.some((edit) => edit.at === name)));
  }

  select(name, draw = true) {
    this.selected = name;
    const step = name.match(/^after_step_(\d+)$/)?.[1] ?? stepIn(name);
    if (step !== null && step !== undefined) {
      this.step = Number(step);
      this.follows = false;
    }
    if (!draw) return;
    this.live();
    this.inspect();
    if (innerWidth < 900) this.inspector.scrollIntoView({ behavior: "smooth", block: "start" });
  }

  drawPicture() {
    const { job } = this;
    const preview = job && aside(job, "preview"),
      [output] = job ? results(job) : [];
    const picture = !job
      ? null
      : output
        ? shown(job, output)
        : preview
          ? h("img", {
              src: preview.url,
              alt: `${promptOf(job)}, at ${job.result.stopped_at}`,
              width: job.request.width,
              height: job.request.height,
            })
          : livePicture(job);
    fill(
      this.picture,
      h(
        "div",
        { class: "frame small", css: { "--ratio": String(job ? job.request.width / job.request.height : 1) } },
        picture ?? h("div", { class: "waiting" }, job ? "" : "No run yet"),
      ),
      h(
        "div",
        { class: "block-says" },
        h("p", { class: "prompt clip-2" }, job ? promptOf(job) : (draft.held.inputs.prompt ?? "")),
        h("p", { class: "muted small", role: "status" }, this.status()),
      ),
    );
  }

  status() {
    const { job } = this;
    if (!job) return "Choose a block, and run the form up to it.";
    if (job.error) return job.error.message;
    if (this.stoppedAt) return `Stopped at ${this.stoppedAt}.`;
    const edits = job.request.edits.map((edit) => `${Object.keys(edit.values).join(", ")} at ${edit.at}`);
    return [job.state, `seed ${job.request.seed}`, edits.length && `changed ${edits.join("; ")}`]
      .filter(Boolean)
      .join(" · ");
  }

  // ---- the boundary ----

  inspect() {
    const held = document.activeElement;
    if (this.inspector.contains(held) && this.job && !ENDED.includes(this.job.state)) return;
    if (this.stoppedAt && this.selected === this.stoppedAt) this.drawStopped();
    else if (this.selected) this.drawSelected();
    else
      fill(
        this.inspector,
        h(
          "div",
          { class: "empty-state" },
          icon("blocks"),
          h("p", { class: "lead" }, "Choose a block"),
          h(
            "p",
            { class: "muted" },
            "See what it makes at every step. Stop a run behind it, change a value, and go on from there.",
          ),
        ),
      );
  }

  drawSelected() {
    const name = this.selected,
      block = this.blockOf(name),
      looks = Object.entries(this.look(name) ?? {});
    const runs = this.job && !ENDED.includes(this.job.state);
    fill(
      this.inspector,
      h("div", { class: "panel-head" }, h("h2", {}, name)),
      block && h("p", { class: "muted" }, block.description),
      block &&
        h(
          "dl",
          { class: "rows small" },
          h("dt", {}, "reads"),
          h("dd", {}, block.reads.join(", ") || "nothing"),
          h("dt", {}, "makes"),
          h("dd", {}, block.makes.join(", ") || "nothing"),
        ),
      h(
        "div",
        { class: "actions" },
        this.stoppedAt && button("play", () => this.goOn(name), { label: "Go on to here", kind: "primary" }),
        this.job &&
          !runs &&
          button("stop", () => this.runTo(name), {
            label: "Run again, stop here",
            kind: this.stoppedAt ? "" : "primary",
            id: "stop-here",
          }),
        button("spark", () => this.runForm(name), {
          label: "Run the form, stop here",
          kind: this.job ? "quiet" : "primary",
        }),
      ),
      h(
        "div",
        { class: "values" },
        looks.map(([key, look]) => editor(key, look, this.numbersOf(name, key))),
      ),
    );
  }

  numbersOf(name, key) {
    if (!this.numbers) return null;
    if (this.stoppedAt) return this.stoppedAt === name ? this.numbers.get(key) : null;
    const step = stepIn(name),
      block = this.blockOf(name),
      found = `|${plain(name)}|out.${key}`;
    const at = step === null ? "|-|" : `${block.loops.at(-1).split(".").pop()}:${String(step).padStart(3, "0")}|`;
    return [...this.numbers].find(([held]) => held.endsWith(found) && held.includes(at))?.[1];
  }

  drawStopped() {
    const at = this.stoppedAt,
      made = new Set(this.blockOf(at)?.makes ?? ["latents"]);
    const looks = Object.entries(this.job.result.values);
    const weight = ([name, look]) =>
      made.has(name)
        ? 0
        : name === "latents"
          ? 0.5
          : isTensor(look)
            ? 1
            : ["bool", "int", "float", "str"].includes(look.type)
              ? 2
              : 3;
    const sorted = looks.sort((a, b) => weight(a) - weight(b)),
      near = sorted.filter((entry) => weight(entry) < 2),
      rest = sorted.filter((entry) => weight(entry) === 2);
    const change = (name) => (edit) => (edit ? this.edits.set(name, edit) : this.edits.delete(name));
    const row = ([name, look]) => editor(name, look, this.numbers?.get(name), change(name));
    const next = nextBoundary(this.flow.blocks, this.steps, at);
    fill(
      this.inspector,
      h("div", { class: "panel-head" }, h("h2", {}, `Stopped at ${at}`)),
      h("p", { class: "muted" }, "What the rest of the run will read. Change it, and go on."),
      h(
        "div",
        { class: "actions sticky" },
        button("play", () => this.goOn(), { label: "Go on", kind: "primary", id: "go-on" }),
        next && button("next", () => this.goOn(next), { label: "One block", title: `Stop again at ${next}` }),
      ),
      h("div", { class: "values" }, near.map(row)),
      rest.length
        ? h(
            "details",
            { class: "more" },
            h("summary", {}, `${rest.length} settings`),
            h("div", { class: "values" }, rest.map(row)),
          )
        : null,
    );
  }

  async start(work) {
    try {
      const job = store.keep(await work());
      location.hash = `#/blocks/${job.id}`;
    } catch (error) {
      problem(error);
    }
  }

  goOn(stop) {
    const values = Object.fromEntries(this.edits);
    return this.start(() => send(`/api/jobs/${this.job.id}/continue`, { values, ...(stop ? { stop_at: stop } : {}) }));
  }

  runTo(name) {
    const { request } = this.job;
    const bare = (value) => (Array.isArray(value) ? value.map(bare) : value?.file ? { file: value.file } : value);
    const inputs = Object.fromEntries(Object.entries(request.inputs).map(([key, value]) => [key, bare(value)]));
    const { model, workflow, seed, scheduler, guider, loras, controlnets, edits } = request;
    return this.start(() =>
      send("/api/jobs", {
        model,
        workflow,
        seed,
        scheduler,
        guider,
        loras,
        controlnets,
        edits: edits.filter((edit) => edit.at !== name),
        inputs,
        stop_at: name,
      }),
    );
  }

  runForm(name) {
    return this.start(() => draft.make({ stop_at: name, count: 1, trace: false }));
  }
}

customElements.define("studio-blocks", StudioBlocks);
