// Sampler and guider: chosen by name, with the settings that each of them has.

import { h, words } from "./dom.js";
import { draft, samplers } from "./draft.js";
import { labelled, select, settings } from "./fields.js";
import { store } from "./store.js";

const OWN = ["", "The model's own"];

const details = (name, title, fields) =>
  h("details", { class: "more", "data-name": name }, h("summary", {}, title), h("div", { class: "grid two" }, fields));

export function samplerPart() {
  const { scheduler } = draft.held;
  const all = samplers();
  const chosen = scheduler && all.find((one) => one.name === scheduler.name);
  const pick = (name, grid = "") => {
    const found = all.find((one) => one.name === name);
    const named = found?.row.named?.[grid ? `${name}_${grid}` : name] ?? {};
    draft.change({ scheduler: found ? { class: found.row.class, name, grid, named, settings: {} } : null });
  };
  const grids = chosen?.row.grids ?? [];
  const names = select("sampler", [OWN, ...all.map((one) => [one.name, one.label])], chosen?.name, (name) =>
    pick(name),
  );
  const levels = [["", "Its own"], ...grids.map((name) => [name, words(name)])];
  const about = chosen?.row.description ?? "The scheduler that the model was published with.";
  const changed = (values) => draft.change({ scheduler: { ...scheduler, settings: values } }, true);
  return h(
    "div",
    { class: "part" },
    h(
      "div",
      { class: grids.length ? "grid two" : "" },
      labelled("Sampler", names, about),
      grids.length > 0 &&
        labelled(
          "Noise levels",
          select("grid", levels, scheduler.grid, (grid) => pick(chosen.name, grid)),
        ),
    ),
    chosen && details("sampler", "Sampler settings", settings(chosen.row.settings, scheduler.settings, changed)),
  );
}

export function guiderPart() {
  const { guiders } = store.catalogue;
  const { guider } = draft.held;
  const spoken = (name) => name.replace(/Guidance$/, "").replace(/([a-z])([A-Z])/g, "$1 $2");
  const names = [OWN, ...Object.keys(guiders).map((name) => [name, spoken(name)])];
  const pick = (name) => draft.change({ guider: name ? { class: name, settings: {} } : null });
  const about = guider ? guiders[guider.class].description : "The guidance that the model was published with.";
  const changed = (values) => draft.change({ guider: { ...guider, settings: values } }, true);
  return h(
    "div",
    { class: "part" },
    labelled("Guider", select("guider", names, guider?.class, pick), about),
    guider && details("guider", "Guider settings", settings(guiders[guider.class].settings, guider.settings, changed)),
  );
}
