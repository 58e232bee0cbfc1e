// Make: the form, the picture as it comes to be, and what waits.

import { button, fill, follow, h, problem, seconds, toast } from "./dom.js";
import { makeBar } from "./controls.js";
import { draft } from "./draft.js";
import { frameOf, livePicture, shown, tile } from "./media.js";
import { keepOutput } from "./pictures.js";
import { bar, cancel, setBar, shorten } from "./queue.js";
import { ENDED, aside, isVideo, promptOf, results, store } from "./store.js";

export class StudioMake extends HTMLElement {
  connectedCallback() {
    this.gone = new AbortController();
    this.note = h("p", { class: "form-problem", role: "alert" });
    const form = h(
      "form",
      {
        class: "controls",
        "aria-label": "What to make",
        onsubmit: (event) => {
          event.preventDefault();
          this.make();
        },
      },
      h("div", { class: "controls-scroll" }, document.createElement("studio-controls")),
      this.note,
      makeBar(),
    );
    this.stage = h("section", { class: "stage", "aria-label": "Result" });
    this.strip = h("div", { class: "strip", role: "list", "aria-label": "Latest results" });
    this.side = h(
      "aside",
      { class: "side", "aria-label": "Queue" },
      document.createElement("studio-queue"),
      h("div", { class: "panel-head" }, h("h2", {}, "Latest"), h("a", { class: "small", href: "#/gallery" }, "All")),
      this.strip,
    );
    fill(this, form, this.stage, this.side);
    store.hear("jobs", (told) => this.heard(told), this.gone.signal);
    store.hear(["step", "preview"], (id, kind) => id === this.job?.id && this.live(kind), this.gone.signal);
    this.choose(this.asked);
  }

  disconnectedCallback() {
    this.gone.abort();
  }

  /** The job that the address names, else what runs, else the newest. */
  async go([id]) {
    this.asked = id;
    if (id && !store.jobs.has(id)) await store.job(id).catch(() => {});
    if (this.stage) this.choose(id);
  }

  choose(id) {
    const worth = (job) => !ENDED.includes(job.state) || job.outputs.length || job.state === "failed";
    this.show(store.jobs.get(id) ?? store.open.find((job) => job.state === "running") ?? store.list().find(worth));
    this.drawStrip();
  }

  heard({ job, gone } = {}) {
    if (gone && gone.id === this.job?.id) this.choose();
    else if (job && job.id === this.job?.id) this.show(job);
    else if (job?.state === "running" && (!this.job || ENDED.includes(this.job.state)) && !this.asked) this.show(job);
    this.drawStrip();
  }

  async make() {
    this.note.textContent = "";
    const pressed = document.getElementById("make");
    pressed.disabled = true;
    try {
      const job = await draft.make();
      if (!store.open.some((one) => one.state === "running" && one.id !== job.id)) {
        this.asked = null;
        history.replaceState(null, "", "#/make");
        this.show(job);
      } else toast("Waits for its turn.");
    } catch (error) {
      this.note.textContent = error.message;
    } finally {
      pressed.disabled = false;
    }
  }

  // ---- the stage ----

  show(job) {
    this.job = job;
    if (!job) {
      fill(
        this.stage,
        h(
          "div",
          { class: "frame empty" },
          h(
            "div",
            { class: "empty-state" },
            h("p", { class: "lead" }, "Nothing made yet"),
            h("p", { class: "muted" }, "Write what the picture has to show, and press Make."),
          ),
        ),
        h("div", { class: "caption" }),
      );
      return;
    }
    const found = results(job);
    this.frame = h("div", { class: `frame ${job.state}`, css: frameOf(job.request) });
    this.caption = h("div", { class: "caption" });
    if (!ENDED.includes(job.state)) this.running(job);
    else if (found.length) this.finished(job, found);
    else this.ended(job);
    fill(this.stage, this.frame, this.caption);
  }

  running(job) {
    this.bar = bar(`Progress of ${promptOf(job)}`);
    this.says = h("span", { class: "grow", "aria-live": "off" });
    fill(
      this.frame,
      livePicture(job) ??
        h("div", { class: "waiting", role: "status" }, job.state === "queued" ? "Waiting for its turn" : "Starting"),
    );
    fill(
      this.caption,
      this.bar,
      h(
        "div",
        { class: "caption-row" },
        this.says,
        button("check", () => shorten(job), { label: "Finish now", kind: "quiet", disabled: job.state === "queued" }),
        button("stop", () => cancel(job), { label: "Cancel", id: "cancel" }),
      ),
    );
    this.live("step");
  }

  live(kind) {
    const { job } = this,
      known = store.progress.get(job.id);
    if (ENDED.includes(job.state)) return;
    setBar(this.bar, job);
    this.says.textContent =
      job.state === "queued" ? "Waiting" : known ? `Step ${known.step} of ${known.steps}` : "Starting";
    const held = this.frame.querySelector("img"),
      address = store.previews.get(job.id);
    if (kind !== "preview" || !address) return;
    if (held) held.src = address;
    else fill(this.frame, livePicture(job));
    this.frame.dataset.previews = String(Number(this.frame.dataset.previews ?? 0) + 1);
  }

  finished(job, found) {
    this.frame.classList.toggle("several", found.length > 1);
    fill(
      this.frame,
      found.length === 1
        ? shown(job, found[0])
        : found.map((output) => tile(job, output, `#/picture/${job.id}/${output.n}`)),
    );
    const [output] = found;
    const facts = [
      output.facts.seed !== undefined && `seed ${found.map((one) => one.facts.seed).join(", ")}`,
      `${job.request.steps} steps`,
      output.facts.seconds && seconds(output.facts.seconds),
      job.result?.interrupted && "finished early",
      job.request.edits.length && "edited on the way",
    ].filter(Boolean);
    fill(
      this.caption,
      h("p", { class: "prompt clip-2" }, promptOf(job)),
      h(
        "div",
        { class: "caption-row" },
        h("span", { class: "muted small grow number" }, facts.join(" · ")),
        !isVideo(output) && button("image", () => this.startFrom(output), { label: "Start from it", kind: "quiet" }),
        h("a", { class: "button quiet", href: `#/blocks/${job.id}` }, "Blocks"),
        h("a", { class: "button quiet", href: `#/picture/${job.id}/${output.n}` }, "Details"),
      ),
    );
    for (const note of job.result?.notes ?? []) this.caption.append(h("p", { class: "muted small" }, note));
  }

  ended(job) {
    const stopped = job.result?.stopped_at,
      preview = aside(job, "preview");
    const said = stopped ? `Stopped at ${stopped}` : job.state === "cancelled" ? "Cancelled" : "It failed";
    const why = job.error?.message ?? (stopped ? "Look at the values there, change them, and go on." : promptOf(job));
    fill(
      this.frame,
      preview
        ? h("img", {
            src: preview.url,
            alt: `${promptOf(job)}, at ${stopped}`,
            width: job.request.width,
            height: job.request.height,
          })
        : h(
            "div",
            { class: "empty-state", role: job.error ? "alert" : "status" },
            h("p", { class: "lead" }, said),
            h("p", { class: "muted" }, why),
          ),
    );
    fill(
      this.caption,
      preview && h("p", { class: "prompt" }, said, h("span", { class: "muted" }, ` – ${promptOf(job)}`)),
      h(
        "div",
        { class: "caption-row" },
        h("span", { class: "grow" }),
        button("again", () => draft.take(job).then(() => this.make(), problem), {
          label: "Make it again",
          kind: "quiet",
        }),
        stopped && h("a", { class: "button primary", href: `#/blocks/${job.id}` }, "Look at the values"),
      ),
    );
  }

  async startFrom(output) {
    try {
      draft.input("image", await keepOutput(output), false);
      toast("The form starts from this picture now.");
    } catch (error) {
      problem(error);
    }
  }

  drawStrip() {
    const items = store
      .list()
      .flatMap((job) => results(job).map((output) => ({ job, output })))
      .slice(0, 24);
    follow(
      this.strip,
      items,
      ({ job, output }) => `${job.id}/${output.n}`,
      ({ job, output }) => h("div", { role: "listitem" }, tile(job, output, `#/make/${job.id}`)),
      (element, { job }) => element.firstElementChild.classList.toggle("chosen", job.id === this.job?.id),
    );
  }
}

customElements.define("studio-make", StudioMake);
