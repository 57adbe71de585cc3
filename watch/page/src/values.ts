// Values of the JSON in the page. The attacker wrote that JSON: whatever has another type than expected becomes null, an
// empty text or an empty list here, and no other file touches unchecked values.

export type Json = unknown;
export type Fields = Record<string, Json>;

export function fields(v: Json): Fields {
  return typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Fields) : {};
}

/** A field of the object itself, not of its prototype. */
export function at(f: Fields, key: string): Json {
  return Object.prototype.hasOwnProperty.call(f, key) ? f[key] : undefined;
}

export function list(v: Json): Json[] {
  return Array.isArray(v) ? v : [];
}

/** Larger numbers mean nothing here, and differences of them would leave the range of numbers. */
const largest = 1e18;

export function number(v: Json): number | null {
  return typeof v === "number" && Math.abs(v) <= largest ? v : null;
}

export function amount(v: Json): number {
  return Math.max(0, number(v) ?? 0);
}

export function text(v: Json): string {
  return typeof v === "string" ? v : typeof v === "number" ? String(v) : "";
}

export function texts(v: Json): string[] {
  return list(v).map(text);
}

export function flag(v: Json): boolean {
  return v === true;
}
