// A picture with a mask that is painted over it: strokes are kept as strokes, so any of them can be undone.

import { upload } from "./api.js";
import { button, h, newId } from "./dom.js";
import { amount, toggle } from "./fields.js";

const TINT = "rgba(99, 110, 250, .62)";

export class MaskPainter extends HTMLElement {
  /** `strokes` are shown at once; `changed` hears of every stroke that ends. */
  set(picture, strokes, changed) {
    Object.assign(this, { picture, strokes: [...strokes], undone: [], changed, erases: false });
    this.width = picture.width;
    this.height = picture.height;
    this.size = Math.max(4, Math.round(Math.min(picture.width, picture.height) / 6));
    this.draw();
    return this;
  }

  draw() {
    const { width, height } = this;
    this.mask = new OffscreenCanvas(width, height);
    this.mask.getContext("2d", { willReadFrequently: true });
    this.shown = h("canvas", {
      width,
      height,
      class: "mask",
      role: "img",
      tabindex: 0,
      "aria-label": "Mask: paint what is to change",
    });
    this.cursor = h("div", { class: "brush-cursor", hidden: true, "aria-hidden": "true" });
    this.board = h(
      "div",
      { class: "board", css: { "aspect-ratio": `${width} / ${height}` } },
      h("img", {
        src: `/api/inputs/${this.picture.file}`,
        alt: "The picture to start from",
        width,
        height,
        draggable: false,
      }),
      this.shown,
      this.cursor,
    );
    this.listen();
    this.replaceChildren(this.board, this.tools(), this.rectangle());
    this.kept = new Map(); // masks that came as files: file -> what it covers
    this.loading = Promise.all(this.strokes.filter((stroke) => stroke.file).map((stroke) => this.load(stroke.file)));
    this.render();
  }

  tools() {
    const size = newId("size"),
      erase = newId("erase");
    const largest = Math.round(Math.min(this.width, this.height) / 2);
    const parts = [
      h(
        "label",
        { for: size, class: "grow" },
        h("span", {}, "Brush"),
        h("input", {
          id: size,
          type: "range",
          min: 2,
          max: largest,
          value: this.size,
          oninput: (e) => {
            this.size = Number(e.target.value);
          },
        }),
      ),
      h(
        "label",
        { for: erase, class: "inline" },
        toggle(erase, this.erases, (on) => {
          this.erases = on;
        }),
        "Erase",
      ),
      (this.undoButton = button("undo", () => this.undo(), { title: "Undo the last stroke", kind: "quiet" })),
      (this.redoButton = button("redo", () => this.redo(), { title: "Redo", kind: "quiet" })),
      button("swap", () => this.add({ invert: true }), { title: "Invert the mask", kind: "quiet" }),
      button("trash", () => this.add({ clear: true }), { title: "Clear the mask", kind: "quiet" }),
    ];
    return h("div", { class: "tools" }, ...parts);
  }

  /** The mask of an earlier job, as a stroke like any other. */
  async load(file) {
    const answer = await fetch(`/api/inputs/${file}`, { credentials: "same-origin" });
    const { width, height } = this;
    const made = new OffscreenCanvas(width, height);
    const pen = made.getContext("2d", { willReadFrequently: true });
    pen.drawImage(await createImageBitmap(await answer.blob()), 0, 0, width, height);
    const picture = pen.getImageData(0, 0, width, height);
    for (let k = 0; k < picture.data.length; k += 4) picture.data[k + 3] = picture.data[k];
    pen.putImageData(picture, 0, 0);
    this.kept.set(file, made);
    this.render();
  }

  /** The keyboard's way to a mask. */
  rectangle() {
    const box = { x: 0, y: 0, width: Math.round(this.width / 2), height: this.height };
    const limits = { min: 0, max: Math.max(this.width, this.height) };
    const set = (name) => (value) => {
      box[name] = value;
    };
    const fields = Object.keys(box).map((name) => amount(name, box[name], set(name), limits));
    return h(
      "details",
      { class: "more" },
      h("summary", {}, "Paint a rectangle"),
      h("div", { class: "grid four" }, fields),
      button("brush", () => this.add({ rect: [box.x, box.y, box.width, box.height], erase: this.erases }), {
        label: "Paint it",
        kind: "quiet",
      }),
    );
  }

  listen() {
    const at = (event) => {
      const box = this.shown.getBoundingClientRect();
      return [
        ((event.clientX - box.left) / box.width) * this.width,
        ((event.clientY - box.top) / box.height) * this.height,
      ].map((x) => Math.round(x * 10) / 10);
    };
    this.shown.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.shown.setPointerCapture(event.pointerId);
      this.stroke = { size: this.size, erase: this.erases || event.shiftKey, points: [at(event)] };
      this.paint(this.stroke);
      this.show();
    });
    this.shown.addEventListener("pointermove", (event) => {
      this.moveCursor(event);
      if (!this.stroke) return;
      for (const part of event.getCoalescedEvents?.() ?? [event]) this.stroke.points.push(at(part));
      this.paint(this.stroke);
      this.show();
    });
    const end = () => {
      if (this.stroke) this.add(this.stroke);
      this.stroke = null;
    };
    for (const kind of ["pointerup", "pointercancel"]) this.shown.addEventListener(kind, end);
    this.shown.addEventListener("pointerleave", () => {
      this.cursor.hidden = true;
    });
    this.shown.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
        event.preventDefault();
        if (event.shiftKey) this.redo();
        else this.undo();
      }
    });
  }

  moveCursor(event) {
    const box = this.shown.getBoundingClientRect(),
      wide = (this.size / this.width) * box.width;
    this.cursor.hidden = event.pointerType === "touch";
    const place = {
      width: `${wide}px`,
      height: `${wide}px`,
      left: `${event.clientX - box.left - wide / 2}px`,
      top: `${event.clientY - box.top - wide / 2}px`,
    };
    Object.entries(place).forEach(([rule, to]) => this.cursor.style.setProperty(rule, to));
  }

  add(stroke) {
    this.strokes.push(stroke);
    this.undone = [];
    this.settle();
  }

  undo() {
    if (this.strokes.length) this.undone.push(this.strokes.pop());
    this.settle();
  }

  redo() {
    if (this.undone.length) this.strokes.push(this.undone.pop());
    this.settle();
  }

  settle() {
    this.render();
    this.changed(this.isEmpty ? [] : [...this.strokes]);
  }

  render() {
    this.mask.getContext("2d").clearRect(0, 0, this.width, this.height);
    for (const stroke of this.strokes) this.paint(stroke);
    this.undoButton.disabled = !this.strokes.length;
    this.redoButton.disabled = !this.undone.length;
    this.show();
  }

  paint(stroke) {
    const pen = this.mask.getContext("2d");
    pen.globalCompositeOperation = stroke.erase ? "destination-out" : "source-over";
    pen.fillStyle = pen.strokeStyle = "white";
    if (stroke.clear) pen.clearRect(0, 0, this.width, this.height);
    else if (stroke.invert) {
      pen.globalCompositeOperation = "xor";
      pen.fillRect(0, 0, this.width, this.height);
    } else if (stroke.rect) pen.fillRect(...stroke.rect);
    else if (stroke.file) {
      if (this.kept.has(stroke.file)) pen.drawImage(this.kept.get(stroke.file), 0, 0);
    } else {
      pen.lineWidth = stroke.size;
      pen.lineCap = pen.lineJoin = "round";
      pen.beginPath();
      pen.moveTo(...stroke.points[0]);
      for (const point of [...stroke.points, stroke.points.at(-1)]) pen.lineTo(...point);
      pen.stroke();
    }
    pen.globalCompositeOperation = "source-over";
  }

  show() {
    const pen = this.shown.getContext("2d");
    pen.globalCompositeOperation = "copy";
    pen.drawImage(this.mask, 0, 0);
    pen.globalCompositeOperation = "source-in";
    pen.fillStyle = TINT;
    pen.fillRect(0, 0, this.width, this.height);
  }

  get isEmpty() {
    const { data } = this.mask.getContext("2d").getImageData(0, 0, this.width, this.height);
    for (let k = 3; k < data.length; k += 4) if (data[k] > 127) return false;
    return true;
  }

  /** White where the picture is to change, with hard edges; kept by the server. */
  async file() {
    await this.loading;
    const made = new OffscreenCanvas(this.width, this.height),
      pen = made.getContext("2d");
    const { data } = this.mask.getContext("2d").getImageData(0, 0, this.width, this.height);
    const picture = pen.createImageData(this.width, this.height);
    for (let k = 0; k < data.length; k += 4) {
      picture.data.fill(data[k + 3] > 127 ? 255 : 0, k, k + 3);
      picture.data[k + 3] = 255;
    }
    pen.putImageData(picture, 0, 0);
    return upload("/api/inputs", await made.convertToBlob({ type: "image/png" }));
  }
}

customElements.define("mask-painter", MaskPainter);

/** The mask that strokes on a picture make, kept by the server. */
export const keepMask = (picture, strokes) =>
  document
    .createElement("mask-painter")
    .set(picture, strokes, () => {})
    .file();
