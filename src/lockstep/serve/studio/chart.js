// A line chart on a logarithmic scale: how far two runs are apart, step by step.

import { fill, h, short, svg } from "./dom.js";

const WIDE = 420,
  HIGH = 200,
  LEFT = 44,
  RIGHT = 28,
  TOP = 12,
  BOTTOM = 32;

export class StepCurve extends HTMLElement {
  /** `lines`: [{name, points: [[step, value]]}]; zero stands on the floor of the scale. */
  set(lines) {
    const values = lines.flatMap((line) => line.points.map(([, value]) => value)).filter((value) => value > 0);
    const steps = Math.max(1, ...lines.flatMap((line) => line.points.map(([step]) => step)));
    const low = values.length ? Math.floor(Math.log10(Math.min(...values))) : -7;
    const high = values.length ? Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)))) : 0;
    const x = (step) => LEFT + (step / steps) * (WIDE - LEFT - RIGHT);
    const y = (value) =>
      TOP + (1 - ((value > 0 ? Math.log10(value) : low) - low) / (high - low)) * (HIGH - TOP - BOTTOM);
    const every = Math.ceil((high - low) / 6),
      rules = [];
    for (let power = low; power <= high; power += every) {
      rules.push(
        svg("line", { x1: LEFT, x2: WIDE - RIGHT, y1: y(10 ** power), y2: y(10 ** power), class: "rule" }),
        svg("text", { x: LEFT - 8, y: y(10 ** power) + 4, "text-anchor": "end" }, `1e${power}`),
      );
    }
    const marks = [...new Set([0, Math.round(steps / 2), steps])].map((step) =>
      svg("text", { x: x(step), y: HIGH - 10, "text-anchor": "middle" }, `step ${step + 1}`),
    );
    const drawn = lines.map((line, k) => {
      const path = line.points
        .map(([step, value], at) => `${at ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`)
        .join("");
      return svg(
        "g",
        { class: `line line-${k % 4}` },
        svg("path", { d: path }),
        ...line.points.map(([step, value]) =>
          svg(
            "circle",
            { cx: x(step), cy: y(value), r: 3 },
            svg("title", {}, `${line.name}, step ${step + 1}: ${short(value)}`),
          ),
        ),
      );
    });
    const said = lines.map((line) => `${line.name} ends at ${short(line.points.at(-1)?.[1])}`).join("; ");
    fill(
      this,
      h(
        "figure",
        { class: "chart" },
        svg(
          "svg",
          { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `Relative difference by step: ${said}` },
          ...rules,
          ...marks,
          ...drawn,
        ),
        h(
          "figcaption",
          {},
          lines.map((line, k) => h("span", { class: `key line-${k % 4}` }, line.name)),
          h("span", { class: "muted" }, "relative difference, |a − b| / |a|"),
        ),
      ),
    );
    return this;
  }
}

customElements.define("step-curve", StepCurve);
