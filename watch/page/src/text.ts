// Foreign text for display. The attacker names a function, a thread, a file: characters that are invisible, reorder their
// neighbours, or pile up are shown as escapes, and long names are cut in their middle.

// Controls, bidirectional and invisible formatting, separators, private use, tags, unpaired surrogates.
const unprintable = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800]/gu;
const piled = /(\p{M}{2})\p{M}+/gu;

function escape(c: string): string {
  const code = c.codePointAt(0) ?? 0;
  return code < 0x100 ? "\\x" + code.toString(16).padStart(2, "0")
      : code < 0x10000 ? "\\u" + code.toString(16).padStart(4, "0") : "\\u{" + code.toString(16) + "}";
}

export const whole = 4000;

export function shown(text: string, most = whole): string {
  if (text.length > most) {
    const end = Math.min(40, Math.floor(most / 4));
    text = text.slice(0, most - end - 1) + "\u2026" + text.slice(text.length - end);
  }
  return text.replace(piled, "$1").replace(unprintable, escape);
}

/** A path's last part. */
export function base(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
