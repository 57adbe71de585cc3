import {useLayoutEffect, useRef, useState} from "preact/hooks";

/** The width in pixels that an element has, so that a drawing keeps the size of its letters on a narrow screen. */
export function useWidth<E extends HTMLElement>(start: number): [{current: E | null}, number] {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(start);
  useLayoutEffect(() => {
    const e = element.current;
    if (!e) return;
    const measure = () => setWidth(Math.max(200, Math.floor(e.clientWidth)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(e);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}
