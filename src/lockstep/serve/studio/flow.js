// The blocks of a workflow in the order in which they run, and the names of the boundaries between them.

const NUMBER = /\.\d{3}(?=\.|$)/g;

export const plain = (path) => path.replace(NUMBER, "");
export const stepIn = (path) => {
  const found = path.match(/\.(\d{3})(?=\.|$)/g);
  return found ? Number(found.at(-1).slice(1)) : null;
};
const padded = (step) => String(step).padStart(3, "0");

/** `denoise.step` at step 3 -> `denoise.003.step`; loops around the innermost one stand at their first turn. */
export function numbered(block, step) {
  const loops = [...block.loops].sort((a, b) => b.length - a.length);
  return loops.reduce((path, loop, k) => `${loop}.${padded(k === 0 ? step : 0)}${path.slice(loop.length)}`, block.path);
}

/** The workflow that a request runs: the one that wants most of the pictures that it gives. */
export function workflowOf(schema, request) {
  if (request?.workflow) return request.workflow;
  const given = Object.keys(request?.inputs ?? {});
  const fits = Object.entries(schema.workflows).filter(([, wants]) => wants.every((name) => given.includes(name)));
  return fits.sort((a, b) => b[1].length - a[1].length)[0]?.[0] ?? Object.keys(schema.workflows)[0];
}

/** Leaves and loops as a tree of one level: [{block}, {block, inside: [...]}]. */
export function tree(blocks) {
  const found = [],
    loops = new Map();
  for (const block of blocks) {
    const around = block.loops.at(-1);
    if (block.kind === "loop") {
      const node = { block, inside: [] };
      loops.set(block.path, node);
      (around ? loops.get(around).inside : found).push(node);
    } else (around ? loops.get(around).inside : found).push({ block });
  }
  return found;
}

/** Every boundary of a run with so many steps, in order. */
export function boundaries(blocks, steps) {
  const walk = (nodes, step) =>
    nodes.flatMap((node) =>
      node.inside ? Array.from({ length: steps }, (_, k) => walk(node.inside, k)).flat() : [numbered(node.block, step)],
    );
  return walk(tree(blocks), 0);
}

/** The boundary after the one at which a run stands. */
export function nextBoundary(blocks, steps, at) {
  const all = boundaries(blocks, steps),
    after = at.match(/^after_step_(\d+)$/);
  const here = after ? all.findLastIndex((name) => stepIn(name) === Number(after[1])) : all.indexOf(at);
  if (here >= 0) return all[here + 1] ?? null;
  return at === "preloop" ? (all.find((name) => stepIn(name) === 0) ?? null) : null;
}
