// A table that is sorted by its headings and filtered by a text; a row opens what belongs to it. On a narrow screen a row
// becomes a card, and a list of choices replaces the headings.
import type {ComponentChildren} from "preact";
import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import {count} from "./figures";

export interface Column<R> {
  key: string;
  title: string;
  about?: string;
  cell: (row: R) => ComponentChildren;
  /** null sorts last in both directions. */
  by: (row: R) => number | string | null;
  number?: boolean;
  /** Not shown on cards. */
  wide?: boolean;
}

interface Props<R> {
  rows: R[];
  columns: Column<R>[];
  /** The column that it is sorted by at first; empty: the file's order. */
  first: string;
  words: (row: R) => string;
  kinds?: (row: R) => string;
  detail?: (row: R) => ComponentChildren;
  open?: number | null;
  onOpen?: (index: number | null) => void;
  noun: string;
  leftOut?: number;
}

const page = 100;

function compare(a: number | string | null, b: number | string | null, descends: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const order = typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b), "en") : a - b;
  return descends ? -order : order;
}

export function Table<R>({rows, columns, first, words, kinds, detail, open = null, onOpen, noun, leftOut = 0}: Props<R>) {
  const [sort, setSort] = useState({key: first, descends: true});
  const [filter, setFilter] = useState("");
  const [kind, setKind] = useState("");
  const [most, setMost] = useState(page);
  const input = useRef<HTMLInputElement>(null);
  const all = useMemo(() => [...new Set(kinds ? rows.map(kinds) : [])], [rows]);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLElement && /^(?:INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
      if (e.key !== "/" || typing || e.ctrlKey || e.metaKey || e.altKey) return;
      input.current?.focus();
      e.preventDefault();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, []);

  const column = columns.find(c => c.key === sort.key);
  const shown = useMemo(() => {
    const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.map((row, index) => ({row, index}))
      .filter(({row}) => (!kind || kinds?.(row) === kind) && (wanted.length === 0 || (text => wanted.every(w => text.includes(w)))(words(row).toLowerCase())))
      .sort((a, b) => column ? compare(column.by(a.row), column.by(b.row), sort.descends) || a.index - b.index : 0);
  }, [rows, filter, kind, sort]);

  const by = (key: string) => {
    const c = columns.find(one => one.key === key);
    setSort(key === sort.key ? {key, descends: !sort.descends} : {key, descends: c?.number ?? false});
  };
  const label = columns[0];
  return (
    <div class="sheet" onKeyDown={e => { if (e.key === "Escape" && open !== null) onOpen?.(null); }}>
      <div class="tools" role="search">
        <input ref={input} type="search" value={filter} placeholder={`Filter ${noun} (press /)`} aria-label={`Filter ${noun}`} spellcheck={false}
               onInput={e => setFilter(e.currentTarget.value)} onKeyDown={e => { if (e.key === "Escape") { setFilter(""); e.stopPropagation(); } }}/>
        {all.length > 1 ? (
          <select aria-label="Kind" value={kind} onChange={e => setKind(e.currentTarget.value)}>
            <option value="">all kinds</option>
            {all.map(k => <option value={k}>{k}</option>)}
          </select>
        ) : null}
        <span class="narrow">
          <select aria-label="Sort by" value={sort.key} onChange={e => by(e.currentTarget.value)}>
            {first ? null : <option value="">as in the file</option>}
            {columns.map(c => <option value={c.key}>{"by " + c.title}</option>)}
          </select>
          <button type="button" class="plain" aria-label={sort.descends ? "descending" : "ascending"} onClick={() => by(sort.key)}>{sort.descends ? "↓" : "↑"}</button>
        </span>
        <span class="muted found" aria-live="polite">{shown.length === rows.length ? count(rows.length) : `${count(shown.length)} of ${count(rows.length)}`}</span>
      </div>
      <table>
        <thead>
          <tr>{columns.map(c => (
            <th scope="col" class={(c.number ? "number " : "") + (c.wide ? "wide" : "")} aria-sort={c.key === sort.key ? (sort.descends ? "descending" : "ascending") : "none"}>
              <button type="button" title={c.about} onClick={() => by(c.key)}>{c.title}<span class="arrow" aria-hidden="true">{c.key === sort.key ? (sort.descends ? "↓" : "↑") : ""}</span></button>
            </th>
          ))}</tr>
        </thead>
        <tbody>
          {shown.slice(0, most).map(({row, index}) => {
            const isOpen = open === index;
            return [
              <tr key={index} class={isOpen ? "open" : ""} data-row={index} onClick={e => {
                if (detail && !(e.target instanceof Element && e.target.closest("button,a,input")) && !window.getSelection()?.toString()) onOpen?.(isOpen ? null : index);
              }}>
                {columns.map(c => {
                  const inner = c.cell(row);
                  return (
                    <td class={(c.number ? "number " : "") + (c.wide ? "wide " : "") + (c === label ? "label" : "")} data-title={c.title}>
                      {c === label && detail
                        ? <button type="button" class="open" aria-expanded={isOpen} onClick={() => onOpen?.(isOpen ? null : index)}>{inner}</button> : inner}
                    </td>
                  );
                })}
              </tr>,
              isOpen && detail ? <tr key={index + "d"} class="detail"><td colSpan={columns.length}>{detail(row)}</td></tr> : null,
            ];
          })}
        </tbody>
      </table>
      {shown.length === 0 ? <p class="muted">None of the {noun} match.</p> : null}
      {shown.length > most ? <button type="button" class="plain" onClick={() => setMost(most + 10 * page)}>{`Show ${count(shown.length - most)} more`}</button> : null}
      {leftOut > 0 ? <p class="muted">{`${count(leftOut)} more ${noun}, after these in the file's order, were left out so that the page stays small.`}</p> : null}
    </div>
  );
}
