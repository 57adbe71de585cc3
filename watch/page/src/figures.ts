// Numbers as the text report writes them: three digits, with their unit.

export const none = "\u2013";
const gap = "\u00a0";

function three(v: number): string {
  return v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2);
}

export function duration(seconds: number | null): string {
  if (seconds === null) return none;
  if (seconds === 0) return "0";
  if (seconds >= 0.9995) return seconds >= 10000 ? count(Math.round(seconds)) + gap + "s" : three(seconds) + gap + "s";
  if (seconds >= 0.9995e-3) return three(seconds * 1e3) + gap + "ms";
  if (seconds >= 0.9995e-6) return three(seconds * 1e6) + gap + "\u00b5s";
  return three(seconds * 1e9) + gap + "ns";
}

export function count(n: number | null): string {
  if (n === null) return none;
  if (n >= 1e15) return n.toExponential(2);
  if (n >= 1e9) return three(n / 1e9) + gap + "G";
  if (n >= 1e6) return three(n / 1e6) + gap + "M";
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function share(part: number | null): string {
  if (part === null) return none;
  const percent = part * 100;
  return (percent === 0 ? "0" : percent < 0.095 ? "<0.1" : percent < 9.95 ? percent.toFixed(1) : percent.toFixed(0)) + gap + "%";
}

export function ratio(v: number | null): string {
  return v === null ? none : v.toFixed(v < 10 ? 2 : 1);
}

export function plural(n: number, one: string, many = one + "s"): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
