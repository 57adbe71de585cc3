// Reads the data that usher report put into the page, and shows one file at a time.
import {Component, render, type ComponentChildren} from "preact";
import {useEffect, useState} from "preact/hooks";
import {Frames, statOf} from "./model";
import {StatView} from "./stat_view";
import {base, shown} from "./text";
import {TopView, topOf} from "./top_view";
import {TryView, trialOf} from "./try_view";
import {at, fields, list, text, type Json} from "./values";

interface File { name: string; kind: string; frames: Json; report: Json }

function read(): {files: File[]; rules: Record<string, Json>; made: string; usher: string} {
  let all: Json = null;
  try {
    all = JSON.parse(document.getElementById("data")?.textContent ?? "");
  } catch {
    // stays null: the page then says that it has no data
  }
  const f = fields(all);
  return {
    files: list(at(f, "files")).map(one => {
      const file = fields(one);
      return {name: shown(text(at(file, "name")), 200), kind: text(at(file, "kind")), frames: at(file, "frames"), report: at(file, "report")};
    }),
    rules: fields(at(f, "rules")), made: shown(text(at(f, "made")), 40), usher: shown(text(at(f, "usher")), 40),
  };
}

/** A file whose data break a view must not take the others with it. */
class Guard extends Component<{children: ComponentChildren}, {error: string}> {
  override state = {error: ""};
  static override getDerivedStateFromError(e: unknown) { return {error: String(e)}; }
  override render() {
    return this.state.error ? <p class="verdict alarm">This file cannot be shown: <bdi>{shown(this.state.error, 300)}</bdi></p> : this.props.children;
  }
}

function View({file, rules}: {file: File; rules: Record<string, Json>}) {
  const words = {rule: (name: string) => shown(text(at(rules, name)) || name, 40)};
  if (file.kind === "stat") return <StatView of={statOf(file.report, new Frames(file.frames))} words={words}/>;
  if (file.kind === "top") return <TopView of={topOf(file.report, new Frames(file.frames))}/>;
  if (file.kind === "try") return <TryView of={trialOf(file.report)}/>;
  return <p class="muted">This page cannot show files of the kind {shown(file.kind, 40)}.</p>;
}

const themes = ["auto", "light", "dark"] as const;

function Theme() {
  const [theme, setTheme] = useState<typeof themes[number]>("auto");
  useEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]);
  return (
    <button type="button" class="plain theme" aria-label={`Colours: ${theme}`} onClick={() => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length] ?? "auto")}>
      {theme === "auto" ? "◐ auto" : theme === "light" ? "○ light" : "● dark"}
    </button>
  );
}

function Page({files, rules, made, usher}: ReturnType<typeof read>) {
  const [chosen, setChosen] = useState(0);
  const file = files[chosen];
  const move = (e: KeyboardEvent) => {
    const by = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    const next = (chosen + by + files.length) % files.length;
    setChosen(next);
    document.getElementById(`tab-${next}`)?.focus();
    e.preventDefault();
  };
  return (
    <>
      <nav class="top">
        <span class="brand">Usher report</span>
        {files.length > 1 ? (
          <div role="tablist" aria-label="Files" class="tabs" onKeyDown={move}>
            {files.map((f, i) => (
              <button type="button" role="tab" id={`tab-${i}`} aria-selected={i === chosen} aria-controls="file" tabIndex={i === chosen ? 0 : -1} onClick={() => setChosen(i)}>
                <bdi>{base(f.name) || `file ${i + 1}`}</bdi> <span class="muted">{shown(f.kind, 10)}</span>
              </button>
            ))}
          </div>
        ) : null}
        <Theme/>
      </nav>
      <main>
        <div id="file" role={files.length > 1 ? "tabpanel" : "region"} aria-label={base(file?.name ?? "")}>
        {file ? <Guard key={chosen}><View key={chosen} file={file} rules={rules}/></Guard> : <p class="verdict alarm">This page has no data.</p>}
        </div>
      </main>
      <footer class="muted">
        <p>Made by usher {usher}{made ? `, ${made}` : ""}. The page loads nothing and sends nothing. <kbd>/</kbd> filters, <kbd>Enter</kbd> opens a row, <kbd>Esc</kbd> closes it, arrow keys move in a flame graph.</p>
      </footer>
    </>
  );
}

const data = read();
const first = data.files[0];
document.title = "Usher report" + (first ? ": " + base(first.name) : "");
const page = document.getElementById("page");
if (page) render(<Page {...data}/>, page);
