// What runs and what waits, in the order in which it comes.

import { send } from "./api.js";
import { button, fill, follow, h, problem } from "./dom.js";
import { promptOf, store } from "./store.js";

export const cancel = (job) => send(`/api/jobs/${job.id}/cancel`).then((now) => store.keep(now), problem);
export const shorten = (job) => send(`/api/jobs/${job.id}/shorten`).then((now) => store.keep(now), problem);
const first = (job) =>
  send(
    `/api/jobs/${job.id}/priority`,
    { priority: Math.min(100, (store.open.find((one) => one.state === "queued")?.priority ?? 0) + 1) },
    "PUT",
  ).then((now) => store.keep(now), problem);

/** How far a job is, for the eye and for screen readers. */
export function bar(label) {
  return h(
    "div",
    { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 },
    h("div", {}),
  );
}

export function setBar(element, job) {
  const known = store.progress.get(job.id),
    share = known ? known.step / Math.max(1, known.steps) : 0;
  element.firstElementChild.style.setProperty("transform", `scaleX(${share})`);
  element.setAttribute("aria-valuenow", Math.round(share * 100));
  element.classList.toggle("waits", job.state === "queued");
}

export class StudioQueue extends HTMLElement {
  connectedCallback() {
    this.gone = new AbortController();
    this.rows = h("ol", { class: "queue-rows" });
    this.none = h("p", { class: "muted small empty-line" }, "Nothing is waiting.");
    this.count = h("span", { class: "muted small" });
    this.all = button("close", () => store.open.forEach(cancel), { label: "Cancel all", kind: "quiet small" });
    fill(this, h("div", { class: "panel-head" }, h("h2", {}, "Queue"), this.count, this.all), this.none, this.rows);
    store.hear(["jobs", "step"], () => this.draw(), this.gone.signal);
    this.draw();
  }

  disconnectedCallback() {
    this.gone.abort();
  }

  draw() {
    const open = store.open,
      waiting = open.filter((job) => job.state === "queued").length;
    this.none.hidden = open.length > 0;
    this.all.hidden = open.length < 2;
    this.count.textContent = open.length ? `${open.length - waiting} running, ${waiting} waiting` : "";
    follow(
      this.rows,
      open.slice(0, 50),
      (job) => job.id,
      (job) => this.row(job),
      (row, job) => {
        setBar(row.bar, job);
        row.raise.hidden = job.state !== "queued" || waiting < 2;
        const known = store.progress.get(job.id);
        row.state.textContent =
          job.state === "queued" ? "waiting" : known ? `${known.step}/${known.steps}` : "starting";
      },
    );
  }

  row(job) {
    const prompt = promptOf(job) || job.model;
    const row = h("li", { class: "queue-row" });
    row.bar = bar(`Progress of ${prompt}`);
    row.state = h("span", { class: "muted small number" });
    row.raise = button("up", () => first(job), { title: `Move to the front: ${prompt}`, kind: "quiet" });
    return fill(
      row,
      h("a", { class: "clip", href: `#/make/${job.id}` }, prompt),
      row.state,
      row.raise,
      button("close", () => cancel(job), { title: `Cancel: ${prompt}`, kind: "quiet" }),
      row.bar,
    );
  }
}

customElements.define("studio-queue", StudioQueue);
