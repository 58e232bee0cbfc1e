// Proofs: two traces that are sent in, compared, and the reports of what was compared before.

import { ask, send, upload } from "./api.js";
import { fill, form, h, icon, problem } from "./dom.js";
import { dropLabel, dropPlace } from "./pictures.js";

const ANSWERS = 10; // from this exit code on, something is to be told
const HEADLINES = { 13: "Not decided", 14: "Cannot be compared", 17: "One side ended with an error" };

export class StudioProofs extends HTMLElement {
  connectedCallback() {
    this.files = { reference: null, candidate: null };
    this.form = form("panel proof-form", "A new proof", () => this.prove());
    this.list = h("section", { class: "reports", "aria-label": "Reports" });
    fill(this, this.form, this.list);
    this.drawForm();
    this.load();
  }

  drawForm() {
    this.note = h("p", { class: "form-problem", role: "alert" });
    this.press = h(
      "button",
      { type: "submit", class: "button primary", disabled: !this.files.reference || !this.files.candidate },
      icon("check"),
      h("span", {}, "Compare the traces"),
    );
    const about = [
      "Two traces, a safetensors file each: what is right, and what is to be proven equal to it. Of a folder that ",
      h("code", {}, "lockstep parity record"),
      " wrote, it is the file ",
      h("code", {}, "000000.safetensors"),
      "; runs that were recorded here can be proven from the comparison.",
    ];
    const places = [this.place("reference", "Reference"), this.place("candidate", "Candidate")];
    fill(this.form, h("h2", {}, "Prove that two programs compute the same"), h("p", { class: "muted small" }, about));
    this.form.append(h("div", { class: "grid two" }, places), this.note, h("div", { class: "actions" }, this.press));
  }

  place(key, label) {
    const file = this.files[key];
    const { place, id } = dropPlace(".safetensors", (taken) => {
      this.files[key] = taken;
      this.drawForm();
    });
    const size = file && `${file.name}, ${(file.size / 2 ** 20).toFixed(1)} MB`;
    place.append(dropLabel(id, label, size ?? "Drop or choose a trace"));
    return place;
  }

  async prove() {
    this.press.disabled = true;
    this.press.lastElementChild.textContent = "Comparing …";
    try {
      const [reference, candidate] = await Promise.all(
        ["reference", "candidate"].map((key) => upload("/api/traces", this.files[key])),
      );
      await send("/api/reports", { reference: reference.trace, candidate: candidate.trace });
      this.files = { reference: null, candidate: null };
      this.drawForm();
      await this.load();
    } catch (error) {
      this.drawForm();
      this.note.textContent = error.message;
    }
  }

  async load() {
    try {
      const { reports } = await ask("/api/reports");
      fill(
        this.list,
        h("div", { class: "panel-head" }, h("h2", {}, "Reports")),
        reports.length
          ? h(
              "ul",
              { class: "report-rows" },
              reports.map((report) => this.row(report)),
            )
          : h(
              "div",
              { class: "empty-state" },
              h("p", { class: "lead" }, "No report yet"),
              h("p", { class: "muted" }, "The first comparison will stand here."),
            ),
      );
    } catch (error) {
      problem(error);
    }
  }

  row({ exit_code: code, answer, url, id }) {
    const differs = code >= ANSWERS;
    const said =
      answer.sentence ?? answer.verdict ?? answer.summary ?? (differs ? "The traces differ." : "The traces are equal.");
    return h(
      "li",
      { class: "report-row" },
      h("span", { class: `mark ${differs ? "warn" : "good"}` }, icon(differs ? "warn" : "check")),
      h(
        "div",
        { class: "grow" },
        h("p", {}, h("b", {}, differs ? (HEADLINES[code] ?? "Different") : "Equal")),
        h("p", { class: "muted small" }, String(said)),
      ),
      h(
        "a",
        { class: "button quiet", href: url, target: "_blank", rel: "noopener", "aria-label": `Open the report ${id}` },
        "Report",
        icon("open"),
      ),
    );
  }
}

customElements.define("studio-proofs", StudioProofs);
