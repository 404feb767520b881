import { useLayoutEffect, useRef } from "preact/hooks";

/** Reports whether keys belong to the element, which takes text. */
function takesText(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** How long the second key of a sequence may take. */
const pause = 1200;

/**
 * Calls the handler of a key, or of a sequence such as "g n", unless a field is
 * being filled in. "Escape" also works there.
 */
export function useKeys(handlers: Record<string, () => void>): void {
  const current = useRef(handlers);
  current.current = handlers;
  // One listener for the life of the component: a page that is drawn between two
  // keys, as when its data arrives, must not forget the first.
  useLayoutEffect(() => {
    let first = "";
    let at = 0;
    const pressed = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || (takesText(e.target) && e.key !== "Escape")) return;
      const sequence = e.timeStamp - at < pause ? first + " " + e.key : "";
      const handler = current.current[sequence] ?? current.current[e.key];
      first = e.key;
      at = e.timeStamp;
      if (!handler) return;
      e.preventDefault();
      first = "";
      handler();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
