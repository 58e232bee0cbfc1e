// The gallery: everything that was made, found by words, model or star; and one picture with all that made it.

import { ask, query, send } from "./api.js";
import { ago, button, fill, follow, h, icon, newId, problem, seconds, toast } from "./dom.js";
import { draft } from "./draft.js";
import { frameOf, shown, tile } from "./media.js";
import { keepOutput, manifestOf, star } from "./pictures.js";
import { isVideo, memory, promptOf, results, store } from "./store.js";

const PAGE = 60;
const waiting = new Map(); // deleted, and not yet gone: id -> timer

/** Forget a job, unless it is called back within some seconds. */
function remove(job, after) {
  store.forget(job.id);
  waiting.set(
    job.id,
    setTimeout(() => {
      waiting.delete(job.id);
      ask(`/api/jobs/${job.id}`, { method: "DELETE" }).catch(problem);
    }, 6000),
  );
  const back = () => {
    clearTimeout(waiting.get(job.id));
    waiting.delete(job.id);
    store.keep(job);
  };
  toast("Deleted.", { action: { label: "Undo", run: back }, seconds: 6 });
  after?.();
}

export class StudioGallery extends HTMLElement {
  connectedCallback() {
    this.gone = new AbortController();
    this.filter = memory.get("gallery", { text: "", model: "", starred: false });
    this.found = [];
    this.picked = new Set();
    this.grid = h("div", { class: "gallery", role: "list", "aria-label": "Results" });
    this.said = h("p", { class: "muted small", role: "status" });
    this.none = h("div", { class: "empty-state wide", hidden: true });
    this.end = h("div", { class: "end" });
    this.chosen = h("div", { class: "chosen-bar", hidden: true });
    fill(this, this.tools(), this.chosen, this.none, this.grid, this.end);
    this.watch = new IntersectionObserver(([entry]) => entry.isIntersecting && this.more(), { rootMargin: "600px" });
    this.watch.observe(this.end);
    store.hear("jobs", ({ job, gone }) => this.heard(job, gone), this.gone.signal);
    this.search();
  }

  disconnectedCallback() {
    this.gone.abort();
    this.watch.disconnect();
  }

  tools() {
    const text = newId("text"),
      starred = newId("starred"),
      models = Object.keys(store.catalogue.models);
    let timer;
    const change = (values) => {
      Object.assign(this.filter, values);
      memory.set("gallery", this.filter);
      clearTimeout(timer);
      timer = setTimeout(() => this.search(), 150);
    };
    return h(
      "form",
      { class: "toolbar", role: "search", onsubmit: (event) => event.preventDefault() },
      h("label", { for: text, class: "sr-only" }, "Search the prompts"),
      h("input", {
        id: text,
        type: "search",
        placeholder: "Search the prompts",
        value: this.filter.text,
        oninput: (event) => change({ text: event.target.value }),
      }),
      models.length > 1 &&
        h(
          "select",
          { "aria-label": "Model", onchange: (event) => change({ model: event.target.value }) },
          h("option", { value: "" }, "Every model"),
          ...models.map((name) => h("option", { value: name, selected: name === this.filter.model }, name)),
        ),
      h(
        "label",
        { for: starred, class: "inline" },
        h("input", {
          id: starred,
          type: "checkbox",
          checked: this.filter.starred,
          onchange: (event) => change({ starred: event.target.checked }),
        }),
        "Starred",
      ),
      h("span", { class: "grow" }),
      this.said,
    );
  }

  async search() {
    this.turn = (this.turn ?? 0) + 1;
    this.whole = false;
    this.busy = false;
    this.found = [];
    await this.more();
    this.draw();
  }

  async more() {
    if (this.busy || this.whole) return;
    this.busy = true;
    const { turn } = this;
    try {
      const asked = query({ made: true, state: "done", limit: PAGE, before: this.found.at(-1)?.seq, ...this.filter });
      const { jobs } = await ask(`/api/jobs?${asked}`);
      if (turn !== this.turn) return;
      this.whole = jobs.length < PAGE;
      this.found.push(...jobs.filter((job) => !waiting.has(job.id)));
      for (const job of jobs) if (!waiting.has(job.id)) store.jobs.set(job.id, job);
      this.draw();
    } catch (error) {
      problem(error);
    } finally {
      if (turn === this.turn) this.busy = false;
    }
  }

  heard(job, gone) {
    if (gone) this.found = this.found.filter((one) => one.id !== gone.id);
    if (job?.state === "done" && results(job).length) {
      const at = this.found.findIndex((one) => one.id === job.id);
      if (at >= 0) this.found[at] = job;
      else if (this.fits(job)) this.found = [...this.found, job].sort((a, b) => b.seq - a.seq);
    }
    this.draw();
  }

  fits(job) {
    const { text, model, starred } = this.filter,
      prompt = promptOf(job).toLowerCase();
    return (
      text
        .toLowerCase()
        .split(/\s+/)
        .every((word) => prompt.includes(word)) &&
      (!model || model === job.model) &&
      (!starred || job.outputs.some((one) => one.starred))
    );
  }

  draw() {
    const items = this.found
      .flatMap((job) => results(job).map((output) => ({ job, output })))
      .filter(({ output }) => !this.filter.starred || output.starred);
    const key = ({ job, output }) => `${job.id}/${output.n}`;
    follow(
      this.grid,
      items,
      key,
      (item) => this.card(item),
      (card, { output }) => {
        card.querySelector(".star-mark").hidden = !output.starred;
        card.querySelector("input").checked = this.picked.has(card.dataset.key);
      },
    );
    this.said.textContent = items.length ? `${items.length}${this.whole ? "" : "+"} results` : "";
    const searched = this.filter.text || this.filter.model || this.filter.starred;
    this.none.hidden = items.length > 0 || !this.whole;
    fill(
      this.none,
      h("p", { class: "lead" }, searched ? "Nothing matches" : "The gallery is empty"),
      searched
        ? button("close", () => this.reset(), { label: "Show everything", kind: "quiet" })
        : h("a", { class: "button primary", href: "#/make" }, "Make the first picture"),
    );
    this.drawChosen();
  }

  reset() {
    this.filter = { text: "", model: "", starred: false };
    memory.set("gallery", this.filter);
    this.querySelector(".toolbar").replaceWith(this.tools());
    this.search();
  }

  card({ job, output }) {
    const key = `${job.id}/${output.n}`;
    const label = `Choose ${promptOf(job)}, seed ${output.facts.seed}`;
    return h(
      "div",
      { role: "listitem", class: "card-tile" },
      tile(job, output, `#/picture/${key}`),
      h("span", { class: "star-mark", hidden: !output.starred, title: "Starred" }, icon("star")),
      h("input", {
        type: "checkbox",
        class: "pick",
        "aria-label": label,
        onchange: (event) => {
          this.picked[event.target.checked ? "add" : "delete"](key);
          this.drawChosen();
        },
      }),
      h("p", { class: "clip small" }, promptOf(job)),
    );
  }

  drawChosen() {
    const here = new Set([...this.grid.children].map((card) => card.dataset.key));
    this.picked = new Set([...this.picked].filter((key) => here.has(key)));
    this.chosen.hidden = !this.picked.size;
    const keys = [...this.picked],
      jobs = [...new Set(keys.map((key) => key.split("/")[0]))].map((id) => store.jobs.get(id)).filter(Boolean);
    fill(
      this.chosen,
      h("span", { class: "grow" }, `${keys.length} chosen`),
      keys.length === 2 &&
        h("a", { class: "button primary", href: `#/compare/${keys[0]}/${keys[1]}` }, icon("split"), "Compare"),
      button(
        "trash",
        () => {
          this.picked.clear();
          jobs.forEach((job) => remove(job));
        },
        { label: "Delete", kind: "quiet" },
      ),
      button(
        "close",
        () => {
          this.picked.clear();
          this.draw();
        },
        { label: "Choose none", kind: "quiet" },
      ),
    );
  }
}

customElements.define("studio-gallery", StudioGallery);

/** One result: large, with its settings, its manifest, and what can be done with it. */
export class StudioPicture extends HTMLElement {
  async go([id, n]) {
    this.gone ??= new AbortController();
    try {
      this.job = await store.job(id);
    } catch (error) {
      return fill(
        this,
        h(
          "div",
          { class: "empty-state wide" },
          h("p", { class: "lead" }, "There is no such picture"),
          h("p", { class: "muted" }, error.message),
          h("a", { class: "button", href: "#/gallery" }, "To the gallery"),
        ),
      );
    }
    this.output = this.job.outputs.find((one) => one.n === Number(n ?? 0)) ?? results(this.job)[0];
    return this.draw();
  }

  disconnectedCallback() {
    this.gone?.abort();
  }

  neighbour(by) {
    const all = store.list().flatMap((job) => results(job).map((output) => `${job.id}/${output.n}`));
    return all[all.indexOf(`${this.job.id}/${this.output.n}`) + by];
  }

  move(by) {
    const key = this.neighbour(by);
    if (key) location.hash = `#/picture/${key}`;
  }

  draw() {
    const { job, output } = this;
    const side = (by, name, title) =>
      h(
        "a",
        {
          class: "button bare quiet",
          href: this.neighbour(by) ? `#/picture/${this.neighbour(by)}` : "#/gallery",
          "aria-label": title,
          title,
          ...(this.neighbour(by) ? {} : { "aria-disabled": "true" }),
        },
        icon(name),
      );
    this.starButton = button("star", () => this.star(), {
      title: "Star",
      kind: "quiet",
      "aria-pressed": String(output.starred),
    });
    const head = h(
      "div",
      { class: "toolbar" },
      h("a", { class: "button quiet", href: "#/gallery" }, icon("left"), "Gallery"),
      h("span", { class: "grow" }),
      side(-1, "left", "Newer"),
      side(1, "right", "Older"),
      this.starButton,
      h(
        "a",
        {
          class: "button bare quiet",
          href: output.url,
          download: `${job.id}-${output.n}.${isVideo(output) ? "mp4" : "png"}`,
          "aria-label": "Download",
          title: "Download",
        },
        icon("down"),
      ),
      button(
        "trash",
        () =>
          remove(job, () => {
            location.hash = "#/gallery";
          }),
        { title: "Delete", kind: "quiet" },
      ),
    );
    this.verdict = h("div", { class: "verdict", role: "status" });
    const facts = h(
      "section",
      { class: "facts", "aria-label": "About this result" },
      h("p", { class: "prompt" }, promptOf(job)),
      this.actions(),
      this.verdict,
      this.settings(),
      this.manifest(),
    );
    fill(
      this,
      head,
      h(
        "div",
        { class: "picture-view" },
        h("div", { class: "frame done", css: frameOf(output.facts) }, shown(job, output)),
        facts,
      ),
    );
  }

  actions() {
    const { job, output } = this,
      to = (address) => {
        location.hash = address;
      };
    const start = async (then) => {
      draft.input("image", await keepOutput(output), false);
      to(then);
    };
    return h(
      "div",
      { class: "actions" },
      button("again", () => this.replay(), { label: "Replay exactly", kind: "primary", id: "replay" }),
      button("spark", () => draft.take(job, output.facts.seed).then(() => to("#/make"), problem), {
        label: "Use all settings",
      }),
      button(
        "dice",
        () => {
          draft.change({ seed: output.facts.seed });
          toast(`Seed ${output.facts.seed} is in the form.`);
        },
        { label: "Use seed" },
      ),
      !isVideo(output) && button("brush", () => start("#/make").catch(problem), { label: "Paint on it" }),
      h("a", { class: "button", href: `#/compare/${job.id}/${output.n}` }, icon("split"), "Compare"),
      h("a", { class: "button", href: `#/blocks/${job.id}` }, icon("blocks"), "Blocks"),
    );
  }

  async star() {
    const { job, output } = this,
      starred = !output.starred;
    try {
      await star(job, output, starred);
      output.starred = starred;
      this.starButton.setAttribute("aria-pressed", String(starred));
      store.keep(job);
    } catch (error) {
      problem(error);
    }
  }

  /** The same once more, and whether it came out the same. */
  async replay() {
    const { job, output } = this;
    this.say("", "Replaying …");
    try {
      const again = await store.ended(store.keep(await send(`/api/jobs/${job.id}/replay`)).id);
      const other = results(again).find((one) => one.n === output.n);
      if (!other) throw new Error(again.error?.message ?? "The replay was cancelled.");
      if (job.result?.interrupted)
        return this.say("warn", "It was finished early, so the whole run that was made now is another picture.");
      const apart = await ask(`/api/compare?${query({ a: `${job.id}/${output.n}`, b: `${again.id}/${other.n}` })}`);
      const link = h("a", { href: `#/compare/${job.id}/${output.n}/${again.id}/${other.n}` }, "Compare");
      if (apart.identical) this.say("good", "Identical to the last pixel.", link);
      else
        this.say(
          "warn",
          `${(apart.differing * 100).toFixed(2)} % of the values differ, by ${apart.largest} of 255 at most.`,
          link,
        );
    } catch (error) {
      this.say("bad", error.message);
    }
  }

  say(kind, text, ...more) {
    this.verdict.className = `verdict ${kind}`;
    const marks = { good: "check", warn: "warn", bad: "warn" };
    fill(this.verdict, kind && icon(marks[kind]), h("span", {}, text), more);
  }

  settings() {
    const { job, output } = this,
      { request } = job;
    const rows = Object.entries(request.inputs)
      .filter(([name]) => !["prompt", "num_inference_steps"].includes(name))
      .map(([name, value]) => [
        name.replaceAll("_", " "),
        typeof value === "object" ? (Array.isArray(value) ? `${value.length} values` : "a picture") : String(value),
      ]);
    rows.unshift(
      ["model", request.model],
      ["seed", String(output.facts.seed ?? request.seed)],
      ["size", `${output.facts.width} × ${output.facts.height}`],
      ["steps", String(request.steps)],
    );
    if (request.scheduler) rows.push(["sampler", request.scheduler.class]);
    if (request.guider) rows.push(["guider", request.guider.class]);
    for (const lora of request.loras) rows.push([`LoRA ${lora.name}`, String(lora.strength)]);
    for (const edit of request.edits) rows.push([`edited at ${edit.at}`, Object.keys(edit.values).join(", ")]);
    rows.push(["made", `${ago(job.ended)}${output.facts.seconds ? `, in ${seconds(output.facts.seconds)}` : ""}`]);
    return h(
      "dl",
      { class: "rows" },
      rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "number" }, value)]),
    );
  }

  manifest() {
    const text = h("pre", { tabindex: 0, "aria-label": "Manifest" }, "…");
    const load = async () => {
      try {
        text.textContent = JSON.stringify(await manifestOf(this.output), null, 2);
      } catch (error) {
        text.textContent = error.message;
      }
    };
    return h(
      "details",
      {
        class: "more",
        "data-name": "manifest",
        ontoggle: (event) => event.target.open && text.textContent === "…" && load(),
      },
      h("summary", {}, "Manifest"),
      h(
        "p",
        { class: "muted small" },
        "Inside the file: ",
        h("code", {}, "lockstep replay"),
        " makes it again from there.",
      ),
      text,
    );
  }
}

customElements.define("studio-picture", StudioPicture);
