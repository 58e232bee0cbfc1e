// Requests to this server, and nowhere else. An error says what the server said.

class Refusal extends Error {
  constructor(message, status, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Refusal("The server cannot be reached.", 0);
  }
  const json = answer.status !== 204 && answer.headers.get("content-type")?.startsWith("application/json");
  const body = json ? await answer.json() : null;
  if (!answer.ok)
    throw new Refusal(
      body?.error?.message ?? `The server answered ${answer.status}.`,
      answer.status,
      body?.error?.param,
    );
  return body;
}

export const send = (path, body, method = "POST") =>
  ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) });

export const upload = (path, blob) =>
  ask(path, { method: "POST", body: blob, headers: { "Content-Type": "application/octet-stream" } });

export const query = (given) => {
  const held = new URLSearchParams();
  for (const [name, value] of Object.entries(given))
    if (value !== "" && value !== null && value !== undefined && value !== false) held.append(name, value);
  return held.toString();
};

/** The numbers of a safetensors file: name -> {dtype, shape, values}. */
export async function tensors(path) {
  const answer = await fetch(path, { credentials: "same-origin" });
  if (!answer.ok) throw new Refusal("The values of this job are gone.", answer.status);
  const data = await answer.arrayBuffer();
  const length = Number(new DataView(data).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, length)));
  const found = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [begin, end] = entry.data_offsets;
    found.set(name, {
      dtype: entry.dtype,
      shape: entry.shape,
      values: numbers(data.slice(8 + length + begin, 8 + length + end), entry.dtype),
    });
  }
  return found;
}

function numbers(bytes, dtype) {
  if (dtype === "F32") return new Float32Array(bytes);
  if (dtype === "F64") return new Float64Array(bytes);
  if (dtype === "I64") return Float64Array.from(new BigInt64Array(bytes), Number);
  if (dtype === "I32") return new Int32Array(bytes);
  if (dtype === "U8" || dtype === "BOOL") return new Uint8Array(bytes);
  const halves = new Uint16Array(bytes);
  if (dtype === "BF16") return new Float32Array(new Uint32Array(halves).map((bits) => bits << 16).buffer);
  return dtype === "F16" ? Float32Array.from(halves, half) : new Float32Array(0);
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1,
    exponent = (bits >> 10) & 31,
    part = bits & 1023;
  if (exponent === 0) return sign * part * 2 ** -24;
  return exponent === 31 ? (part ? NaN : sign * Infinity) : sign * (1 + part / 1024) * 2 ** (exponent - 15);
}
