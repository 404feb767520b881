import type { JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "./i18n";
import { search, type Var } from "./variables";

interface PickerProps {
  label: string;
  from: Var[];
  pick: (v: Var) => void;
  /** Shown until something is typed. */
  value?: string;
  searchKey?: boolean;
}

/** How many matches are listed. */
const most = 30;

/** A field that finds a variable by typing: a combobox with a list of matches. */
export function Picker({ label, from, pick, value = "", searchKey }: PickerProps): JSX.Element {
  const id = useId();
  const [text, setText] = useState<string | null>(null);
  const [active, setActive] = useState(0);
  const matches = text === null ? [] : search(from, text).slice(0, most);
  const choose = (v: Var | undefined) => {
    if (!v) return;
    setText(null);
    pick(v);
  };
  const pressed = (e: KeyboardEvent) => {
    const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      if (text === null) setText("");
      setActive(Math.max(0, Math.min(matches.length - 1, active + step)));
    } else if (e.key === "Enter") choose(matches[active]);
    else if (e.key === "Escape" && text !== null) setText(null);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const open = text !== null && matches.length > 0;
  const field = useRef<HTMLInputElement>(null);
  const listed = useRef<HTMLUListElement>(null);
  useLayoutEffect(() => {
    if (!open) return undefined;
    const put = () => place(listed.current!, field.current!);
    put();
    addEventListener("scroll", put, true);
    addEventListener("resize", put);
    visualViewport?.addEventListener("resize", put);
    return () => {
      removeEventListener("scroll", put, true);
      removeEventListener("resize", put);
      visualViewport?.removeEventListener("resize", put);
    };
  }, [open]);
  useLayoutEffect(() => listed.current?.children[active]?.scrollIntoView({ block: "nearest" }), [active]);
  return (
    <div class="picker">
      <label for={id + "i"}>{label}</label>
      <input
        id={id + "i"} ref={field} role="combobox" data-typed={text !== null} aria-expanded={open} aria-controls={id + "l"} aria-autocomplete="list"
        aria-activedescendant={open ? id + active : undefined} autocomplete="off" spellcheck={false}
        placeholder={t("typeName")} value={text ?? value} data-search={searchKey}
        onInput={(e) => { setText(e.currentTarget.value); setActive(0); }}
        onFocus={(e) => e.currentTarget.select()} onBlur={() => setText(null)} onKeyDown={pressed}
      />
      <ul id={id + "l"} ref={listed} role="listbox" aria-label={label} hidden={!open}>
        {matches.map((v, i) => (
          <li
            key={v.key} id={id + i} role="option" aria-selected={i === active}
            onMouseDown={(e) => { e.preventDefault(); choose(v); }}
          >
            <span>{v.name}</span> <span class="dim">{v.unit}</span>
          </li>
        ))}
      </ul>
      {text !== null && text !== "" && matches.length === 0 && <p class="dim" role="status">{t("noMatch")}</p>}
    </div>
  );
}

/**
 * Puts the list below its field, or above where there is more room. It is placed in the
 * window: a panel that scrolls would cut it off, and a keyboard on the screen cover it.
 */
function place(list: HTMLElement, field: HTMLElement): void {
  const at = field.getBoundingClientRect();
  const top = visualViewport?.offsetTop ?? 0;
  const bottom = top + (visualViewport?.height ?? innerHeight);
  const [below, above] = [bottom - at.bottom - 8, at.top - top - 8];
  const down = below >= Math.min(240, list.scrollHeight) || below >= above;
  const width = Math.min(Math.max(at.width, 280), innerWidth - 16);
  list.style.width = width + "px";
  list.style.left = Math.max(8, Math.min(at.left, innerWidth - width - 8)) + "px";
  list.style.maxHeight = Math.max(80, Math.min(320, down ? below : above)) + "px";
  list.style.top = down ? at.bottom + 2 + "px" : "auto";
  list.style.bottom = down ? "auto" : innerHeight - at.top + 2 + "px";
}
