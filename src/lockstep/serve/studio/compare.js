// Compare: two results over each other, their difference made large, where their runs part, and what was set otherwise.

import { ask, query, send } from "./api.js";
import { button, fill, h, icon, problem, short } from "./dom.js";
import "./chart.js";
import { factors, segments } from "./fields.js";
import { frameOf, shown, tile } from "./media.js";
import { aside, isVideo, memory, promptOf, results, store } from "./store.js";

const MODES = { slider: "Slider", beside: "Side by side", difference: "Difference", blink: "Blink" };
const VIDEO_MODES = { beside: MODES.beside, difference: MODES.difference }; // what moves is not laid over each other

export class CompareSlider extends HTMLElement {
  set(left, right, label) {
    const range = h("input", {
      type: "range",
      min: 0,
      max: 100,
      step: 0.5,
      value: 50,
      "aria-label": label,
      oninput: (event) => this.split(event.target.value),
    });
    fill(
      this,
      h("img", { src: right.url, alt: "B", class: "under" }),
      h("img", { src: left.url, alt: "A", class: "over" }),
      h("div", { class: "divider", "aria-hidden": "true" }),
      h("span", { class: "corner left", "aria-hidden": "true" }, "A"),
      h("span", { class: "corner right", "aria-hidden": "true" }, "B"),
      range,
    );
    this.split(50);
    return this;
  }

  split(at) {
    this.style.setProperty("--at", `${at}%`);
  }
}

customElements.define("compare-slider", CompareSlider);

export class StudioCompare extends HTMLElement {
  connectedCallback() {
    this.gone = new AbortController();
    this.mode = memory.get("compare.mode", "slider");
    this.times = 16;
  }

  disconnectedCallback() {
    this.gone.abort();
    clearInterval(this.blinking);
  }

  async go([a, an, b, bn]) {
    clearInterval(this.blinking);
    const [one, other] = await Promise.all(
      [
        [a, an],
        [b, bn],
      ].map(([id, n]) => this.find(id, n)),
    );
    Object.assign(this, { one, other });
    if (!one || !other) return this.choose();
    return this.draw();
  }

  async find(id, n) {
    if (!id) return null;
    try {
      const job = await store.job(id);
      const output = job.outputs.find((found) => found.n === Number(n ?? 0)) ?? results(job)[0];
      return output && { job, output, key: `${id}/${output.n}` };
    } catch {
      return null;
    }
  }

  choose() {
    const chosen = this.one ?? this.other;
    const all = store
      .list()
      .flatMap((job) => results(job).map((output) => ({ job, output })))
      .filter(({ output }) => !chosen || isVideo(output) === isVideo(chosen.output))
      .slice(0, 60);
    const address = (key) => (chosen ? `#/compare/${chosen.key}/${key}` : `#/compare/${key}`);
    fill(
      this,
      h(
        "div",
        { class: "toolbar" },
        h("p", { class: "lead" }, chosen ? "Choose what to compare it with" : "Choose two results to compare"),
        h("span", { class: "grow" }),
        chosen && h("a", { class: "button quiet", href: "#/compare" }, "Begin again"),
      ),
      all.length < 2
        ? h(
            "div",
            { class: "empty-state wide" },
            h("p", { class: "lead" }, "There is nothing to compare yet"),
            h("p", { class: "muted" }, "It takes two pictures, or two videos."),
            h("a", { class: "button primary", href: "#/make" }, "Make some"),
          )
        : h(
            "div",
            { class: "gallery", role: "list", "aria-label": "Results" },
            all.map(({ job, output }) => {
              const key = `${job.id}/${output.n}`;
              return h(
                "div",
                { role: "listitem", class: `card-tile ${chosen?.key === key ? "chosen" : ""}` },
                tile(job, output, chosen?.key === key ? "#/compare" : address(key)),
                h("p", { class: "clip small" }, promptOf(job)),
              );
            }),
          ),
    );
  }

  draw() {
    const { one, other } = this;
    const known = isVideo(one.output) || isVideo(other.output) ? VIDEO_MODES : MODES;
    if (!(this.mode in known)) this.mode = "beside";
    this.board = h("div", { class: "compare-board" });
    this.numbers = h("p", { class: "number", role: "status" }, "…");
    this.curve = h("section", { class: "panel", "aria-label": "Where the runs part" });
    const modes = segments("How to compare", known, this.mode, (mode) => this.show(mode));
    this.amplify = factors("Amplified", [1, 4, 16, 64], this.times, (by) => {
      this.times = by;
      this.show("difference");
    });
    const name = (letter, { job, output, key }) =>
      h(
        "a",
        { class: "clip", href: `#/picture/${key}` },
        h("b", {}, `${letter} `),
        `${promptOf(job)} `,
        h("span", { class: "muted number" }, `seed ${output.facts.seed ?? job.request.seed}`),
      );
    fill(
      this,
      h(
        "div",
        { class: "toolbar" },
        modes,
        this.amplify,
        h("span", { class: "grow" }),
        h("a", { class: "button quiet", href: `#/compare/${other.key}/${one.key}` }, icon("swap"), "Swap"),
        h("a", { class: "button quiet", href: "#/compare" }, "Others"),
      ),
      h(
        "div",
        { class: "compare-view" },
        h("div", {}, this.board, h("div", { class: "compare-names" }, name("A", one), name("B", other))),
        h(
          "div",
          { class: "compare-side" },
          h("section", { class: "panel", "aria-label": "Pixels" }, h("h2", {}, "Pixels"), this.numbers),
          this.curve,
          this.differing(),
        ),
      ),
    );
    this.show(this.mode);
    this.measure();
    this.steps();
  }

  show(mode) {
    const { one, other } = this;
    this.mode = mode;
    memory.set("compare.mode", mode);
    clearInterval(this.blinking);
    this.amplify.hidden = mode !== "difference";
    for (const pressed of this.querySelectorAll(".segments button"))
      pressed.setAttribute("aria-pressed", String(pressed.dataset.name === mode));
    const picture = (found, letter) =>
      isVideo(found.output)
        ? shown(found.job, found.output)
        : h("img", {
        src: found.output.url,
        alt: `${letter}: ${promptOf(found.job)}`,
        width: found.output.facts.width,
        height: found.output.facts.height,
      });
    for (const [rule, to] of Object.entries(frameOf(one.output.facts))) this.board.style.setProperty(rule, to);
    this.board.className = `compare-board ${mode}`;
    if (mode === "slider")
      fill(
        this.board,
        document.createElement("compare-slider").set(one.output, other.output, "How much of A is shown"),
      );
    else if (mode === "beside") fill(this.board, picture(one, "A"), picture(other, "B"));
    else if (mode === "difference")
      fill(
        this.board,
        h("img", {
          src: `/api/compare/picture?${query({ a: one.key, b: other.key, times: this.times })}`,
          alt: `The difference, ${this.times} times as large`,
        }),
      );
    else {
      const under = picture(other, "B"),
        over = picture(one, "A");
      fill(this.board, under, over);
      this.blinking = setInterval(() => over.classList.toggle("off"), 700);
    }
  }

  async measure() {
    try {
      const apart = await ask(`/api/compare?${query({ a: this.one.key, b: this.other.key })}`);
      const share = (apart.differing * 100).toFixed(1);
      this.numbers.textContent = apart.identical
        ? "Identical to the last pixel."
        : `${share} % of the values differ; largest ${apart.largest} of 255, mean ${short(apart.mean)}.`;
      this.numbers.classList.toggle("good-text", apart.identical);
    } catch (error) {
      this.numbers.textContent = error.message;
    }
  }

  /** The curve of two recorded runs, or an offer to record them. */
  async steps() {
    const head = h("h2", {}, "Step by step");
    const runs = await Promise.all([this.one, this.other].map((found) => this.recorded(found.job)));
    if (runs.every(Boolean)) {
      try {
        const found = await ask(`/api/compare/steps?${query({ a: runs[0].id, b: runs[1].id })}`);
        return fill(this.curve, head, this.lines(found.differences), this.proof(runs));
      } catch (error) {
        return fill(this.curve, head, h("p", { class: "muted" }, error.message));
      }
    }
    return fill(
      this.curve,
      head,
      h(
        "p",
        { class: "muted small" },
        "Where do the two runs part? Recording makes each of them once more and keeps what every block made.",
      ),
      button("again", (event) => this.record(event.currentTarget), { label: "Record both runs", id: "record" }),
    );
  }

  async recorded(job) {
    const held = memory.get("recorded", {})[job.id];
    if (aside(job, "trace")) return job;
    return held
      ? store.job(held).then(
          (found) => (aside(found, "trace") ? found : null),
          () => null,
        )
      : null;
  }

  async record(pressed) {
    pressed.disabled = true;
    pressed.lastElementChild.textContent = "Recording …";
    try {
      for (const { job } of [this.one, this.other]) {
        if (await this.recorded(job)) continue;
        const made = store.keep(await send(`/api/jobs/${job.id}/replay?trace=true`));
        const ended = await store.ended(made.id);
        if (ended.state !== "done") throw new Error(ended.error?.message ?? "The recording was cancelled.");
        memory.set("recorded", { ...memory.get("recorded", {}), [job.id]: made.id });
      }
      this.steps();
    } catch (error) {
      problem(error);
      this.steps();
    }
  }

  lines(rows) {
    const inside = rows.filter((row) => row.step !== "-" && row.relative !== null),
      names = [...new Set(inside.map((row) => `${row.path} ${row.name}`))];
    const lines = names.map((name) => ({
      name: name.split(" ")[1],
      points: inside
        .filter((row) => `${row.path} ${row.name}` === name)
        .map((row) => [Number(row.step.split(":").pop()), row.relative]),
    }));
    const wanted = lines.filter((line) => ["latents", "noise_pred"].includes(line.name));
    const before = rows.filter((row) => row.step === "-").map((row) => [`${row.path} · ${row.name}`, row.relative]);
    if (!lines.length) return h("p", { class: "muted" }, "The two runs have no step in common.");
    return [
      document.createElement("step-curve").set(wanted.length ? wanted : lines.slice(0, 4)),
      h(
        "dl",
        { class: "rows" },
        before.flatMap(([name, value]) => [
          h("dt", {}, name),
          h("dd", { class: "number" }, value === null ? "other shape" : value === 0 ? "equal" : short(value)),
        ]),
      ),
    ];
  }

  proof(runs) {
    return button(
      "check",
      async (event) => {
        const pressed = event.currentTarget;
        pressed.disabled = true;
        pressed.lastElementChild.textContent = "Proving …";
        try {
          const [reference, candidate] = await Promise.all(runs.map((job) => send(`/api/jobs/${job.id}/trace`)));
          await send("/api/reports", { reference: reference.trace, candidate: candidate.trace });
          location.hash = "#/proofs";
        } catch (error) {
          problem(error);
          this.steps();
        }
      },
      { label: "Prove: parity report", kind: "quiet" },
    );
  }

  differing() {
    const flat = ({ job, output }) => ({
      ...job.request.inputs,
      model: job.model,
      seed: output.facts.seed ?? job.request.seed,
      sampler: job.request.scheduler?.class,
      guider: job.request.guider?.class,
      loras: job.request.loras.map((lora) => `${lora.name} ${lora.strength}`).join(", ") || undefined,
      edits: job.request.edits.map((edit) => edit.at).join(", ") || undefined,
    });
    const [a, b] = [flat(this.one), flat(this.other)];
    const say = (value) => (value === undefined ? "–" : typeof value === "object" ? "a picture" : String(value));
    const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
      (name) => JSON.stringify(a[name]) !== JSON.stringify(b[name]),
    );
    return h(
      "section",
      { class: "panel", "aria-label": "Settings" },
      h("h2", {}, "Set otherwise"),
      names.length
        ? h(
            "table",
            { class: "table" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                ["", "A", "B"].map((text) => h(text ? "th" : "td", {}, text)),
              ),
            ),
            h(
              "tbody",
              {},
              names.map((name) =>
                h(
                  "tr",
                  {},
                  h("th", {}, name.replaceAll("_", " ")),
                  h("td", {}, say(a[name])),
                  h("td", {}, say(b[name])),
                ),
              ),
            ),
          )
        : h("p", { class: "muted small" }, "Nothing: the same settings."),
    );
  }
}

customElements.define("studio-compare", StudioCompare);
