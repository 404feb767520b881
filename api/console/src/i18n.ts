import { en } from "./lang/en";
import { es } from "./lang/es";
import { keep, kept, store } from "./store";

export type Key = keyof typeof en;
export type Language = "en" | "es";

const words: Record<Language, Record<Key, string>> = { en, es };

/** The language: what was chosen before, else the browser's. */
export const language = store<Language>(initial());

function initial(): Language {
  const chosen = kept("language");
  if (chosen === "en" || chosen === "es") return chosen;
  return navigator.languages.map((l) => l.slice(0, 2)).find((l): l is Language => l === "en" || l === "es") ?? "en";
}

export function choose(l: Language): void {
  keep("language", l);
  language.set(l);
}

/** The locale of numbers and times: the browser's region, if it speaks the language. */
export function locale(): string {
  const l = language.get();
  return navigator.languages.find((name) => name.startsWith(l)) ?? l;
}

/** The text of a key, with {name} replaced. */
export function t(key: Key, params: Record<string, string | number> = {}): string {
  return words[language.get()][key].replace(/\{(\w+)\}/g, (_, name: string) => String(params[name] ?? ""));
}
