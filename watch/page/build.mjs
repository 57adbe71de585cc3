// Bundles src/ into one HTML file, the template of usher report: node build.mjs FILE.
//
// Script and style are inline, and the page's policy names them by their hashes: whatever a name in the data contains,
// the browser runs and loads nothing else.
import {build} from "esbuild";
import {createHash} from "node:crypto";
import {mkdirSync, readFileSync, renameSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2];
if (!target) {
  console.error("usage: node build.mjs FILE");
  process.exit(2);
}

async function bundle(entry, more) {
  const made = await build({absWorkingDir: here, entryPoints: [entry], bundle: true, minify: true, write: false, metafile: true,
                            target: "es2021", charset: "ascii", legalComments: "none", logLevel: "warning", ...more});
  return {text: made.outputFiles[0].text.trim(), inputs: Object.keys(made.metafile.inputs)};
}

/** The licences of the packages in the bundle, for a comment of HTML, which "--" could end. */
function licences(inputs) {
  const names = new Set();
  for (const input of inputs) {
    const at = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (at) names.add(at[1]);
  }
  return [...names].sort().map(name => {
    const folder = join(here, "node_modules", name);
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const text = readFileSync(join(folder, "LICENSE"), "utf8").trim();
    return `${name} ${about.version} (${about.license})\n\n${text}`.replace(/-{2,}/g, "-");
  }).join("\n\n");
}

const hash = text => "'sha256-" + createHash("sha256").update(text, "utf8").digest("base64") + "'";

const script = await bundle("src/main.tsx", {format: "iife", jsx: "automatic", jsxImportSource: "preact", treeShaking: true});
const style = await bundle("src/page.css", {});
for (const [what, text, end] of [["script", script.text, /<\/script|<!--/i], ["style", style.text, /<\/style/i]])
  if (end.test(text)) throw new Error(`the ${what} contains the end of its own element`);

const parts = {LICENCES: licences(script.inputs), SCRIPT_HASH: hash(script.text), STYLE_HASH: hash(style.text),
               SCRIPT: script.text, STYLE: style.text};
const template = readFileSync(join(here, "src/template.html"), "utf8");
const page = template.replace(/@([A-Z_]+)@/g, (all, name) => parts[name] ?? all);
if (page.split("@DATA@").length !== 2) throw new Error("the template must have @DATA@ once");

mkdirSync(dirname(target), {recursive: true});
writeFileSync(`${target}.new`, page);
renameSync(`${target}.new`, target);
console.log(`${target}: ${page.length} bytes`);
