import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
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
  return (
    <div class="picker">
      <label for={id + "i"}>{label}</label>
      <input
        id={id + "i"} role="combobox" aria-expanded={open} aria-controls={id + "l"} aria-autocomplete="list"
        aria-activedescendant={open ? id + active : undefined} autocomplete="off" spellcheck={false}
        placeholder={t("typeName")} value={text ?? value} data-search={searchKey}
        onInput={(e) => { setText(e.currentTarget.value); setActive(0); }}
        onFocus={(e) => e.currentTarget.select()} onBlur={() => setText(null)} onKeyDown={pressed}
      />
      <ul id={id + "l"} role="listbox" aria-label={label} hidden={!open}>
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
