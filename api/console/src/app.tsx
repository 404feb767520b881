// The shell around the pages: navigation, language, theme, keys.

import type { ComponentType, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { choose, language, t, type Key } from "./i18n";
import { useKeys } from "./keys";
import { Login } from "./pages/login";
import { Network } from "./pages/network";
import { go, href, route, type Route } from "./router";
import { end, session } from "./session";
import { keep, kept, useStore } from "./store";
import { Dialog, Failed, Skeleton } from "./ui";
import { Failure } from "./api";

type Page = ComponentType<{ route: Route }>;

/** The sides that the server has: pages of others are not shown. */
const sides = (document.documentElement.dataset.sides ?? "monitoring").split(" ");

interface Entry {
  side: "releases" | "monitoring";
  path: string;
  title: Key;
  key: string;
  page: () => Promise<Page>;
}

/** The pages in the order of the navigation. Larger ones are loaded when opened. */
const all: Entry[] = [
  { side: "releases", path: "releases", title: "releases", key: "r", page: async () => (await import("./pages/releases")).Releases },
  { side: "monitoring", path: "network", title: "network", key: "n", page: async () => Network },
  { side: "monitoring", path: "charts", title: "charts", key: "c", page: async () => (await import("./pages/charts")).Charts },
  { side: "monitoring", path: "boards", title: "boards", key: "b", page: async () => (await import("./pages/boards")).Boards },
  { side: "monitoring", path: "diagrams", title: "diagrams", key: "d", page: async () => (await import("./pages/diagrams")).Diagrams },
  { side: "monitoring", path: "devices", title: "devices", key: "v", page: async () => (await import("./pages/devices")).Devices },
  { side: "monitoring", path: "access", title: "access", key: "a", page: async () => (await import("./pages/access")).Access },
];

const pages = all.filter((p) => sides.includes(p.side));

/** The page that opens first: that of the network, where there is one. */
const first = pages.find((p) => p.side === "monitoring") ?? pages[0]!;

export function App(): JSX.Element {
  useStore(language);
  const who = useStore(session);
  const at = useStore(route);
  const [help, setHelp] = useState(false);
  const entry = pages.find((p) => p.path === at.path[0]) ?? first;
  const open = who !== null || entry.side === "releases";
  useKeys({
    "?": () => setHelp(true),
    "/": focusSearch,
    ...Object.fromEntries(pages.map((p) => ["g " + p.key, () => go(p.path)])),
  });
  useEffect(() => {
    document.documentElement.lang = language.get();
    document.title = (open ? t(entry.title) : t("login")) + " · tsmon";
  });
  // Who logged in or went to another page goes on at its beginning, unless something has the focus.
  useEffect(() => {
    if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
  }, [who !== null, entry]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>{t("skip")}</a>
      <header class="bar">
        <span class="brand">tsmon</span>
        <Navigation current={open ? entry : null} loggedIn={who !== null} />
        <Settings loggedIn={who !== null} help={() => setHelp(true)} />
      </header>
      <main id="main" tabIndex={-1}>
        {open ? <Lazy key={entry.path} entry={entry} route={at} /> : <Login />}
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </>
  );
}

function skip(e: Event): void {
  e.preventDefault();
  document.getElementById("main")?.focus();
}

function focusSearch(): void {
  document.querySelector<HTMLInputElement>("[data-search]")?.focus();
}

/** Who is not logged in sees the pages that need no login, and the way to it. */
function Navigation({ current, loggedIn }: { current: Entry | null; loggedIn: boolean }): JSX.Element | null {
  const row = useRef<HTMLElement>(null);
  // On a telephone the row scrolls: the page that is open is in its middle.
  useLayoutEffect(() => {
    const [nav, open] = [row.current, row.current?.querySelector<HTMLElement>("[aria-current]")];
    if (nav && open) nav.scrollLeft = open.offsetLeft - nav.offsetLeft - (nav.clientWidth - open.offsetWidth) / 2;
  }, [current, loggedIn, language.get()]);
  const shown = pages.filter((p) => loggedIn || p.side === "releases");
  const login = !loggedIn && sides.includes("monitoring");
  if (shown.length === 0) return null;
  return (
    <nav aria-label={t("pages")} ref={row}>
      {shown.map((p) => (
        <a key={p.path} href={href(p.path)} aria-current={p === current ? "page" : undefined}>{t(p.title)}</a>
      ))}
      {login && <a href={href(first.path)} aria-current={current === null ? "page" : undefined}>{t("logInPage")}</a>}
    </nav>
  );
}

function Lazy({ entry, route }: { entry: Entry; route: Route }): JSX.Element {
  const [loaded, setLoaded] = useState<{ page: Page } | { error: Failure } | null>(null);
  useEffect(() => {
    entry.page().then((page) => setLoaded({ page }), () => setLoaded({ error: new Failure(0, "") }));
  }, [entry]);
  if (!loaded) return <Skeleton />;
  if ("error" in loaded) return <Failed error={loaded.error} retry={() => location.reload()} />;
  return <loaded.page route={route} />;
}

const themes = ["auto", "light", "dark"] as const;
type Theme = (typeof themes)[number];

/** Applies a theme; auto follows the system. */
export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  keep("theme", theme);
}

export function keptTheme(): Theme {
  return themes.find((theme) => theme === kept("theme")) ?? "auto";
}

function Settings({ loggedIn, help }: { loggedIn: boolean; help: () => void }): JSX.Element {
  const [theme, setTheme] = useState(keptTheme());
  const next = themes[(themes.indexOf(theme) + 1) % themes.length]!;
  const name = (x: Theme) => t(x === "auto" ? "themeAuto" : x === "light" ? "themeLight" : "themeDark");
  const turn = () => { applyTheme(next); setTheme(next); };
  return (
    <div class="settings">
      {(["en", "es"] as const).map((l) => (
        <button
          type="button" class="quiet" key={l} lang={l} aria-pressed={language.get() === l}
          aria-label={l === "en" ? "en, English" : "es, Español"} onClick={() => choose(l)}
        >{l}</button>
      ))}
      <button type="button" class="quiet" title={name(theme)} aria-label={t("theme", { theme: name(theme) })} onClick={turn}>
        {theme === "auto" ? "◐" : theme === "light" ? "○" : "●"}
      </button>
      <button type="button" class="quiet" title={t("keys")} aria-label={t("keys")} onClick={help}>?</button>
      {loggedIn && <button type="button" class="quiet" onClick={() => end("left")}>{t("logout")}</button>}
    </div>
  );
}

function Help({ close }: { close: () => void }): JSX.Element {
  const rows: [string, string][] = [
    ["/", t("keySearch")],
    ...pages.map((p): [string, string] => ["g " + p.key, t(p.title)]),
    ["1 – 5", t("keyPeriods")],
    ["?", t("keys")],
    ["Esc", t("close")],
  ];
  const editor: [string, string][] = [
    ["e", t("keyEdit")],
    ["v l p t i", t("keyTools")],
    ["Enter", t("keyPlace")],
    ["← ↑ ↓ →", t("keyArrows")],
    ["⇧ ← ↑ ↓ →", t("keyFar")],
    ["Delete", t("keyDelete")],
    ["Ctrl A / ⌘ A", t("keyAll")],
    ["Ctrl D / ⌘ D", t("keyDuplicate")],
    ["Ctrl Z / ⌘ Z", t("undo")],
    ["Ctrl Y / ⌘ ⇧ Z", t("redo")],
    ["Ctrl S / ⌘ S", t("keySave")],
  ];
  const table = (of: [string, string][]) => (
    <table class="plain">
      <tbody>{of.map(([key, what]) => <tr key={key}><th scope="row"><kbd>{key}</kbd></th><td>{what}</td></tr>)}</tbody>
    </table>
  );
  const monitors = sides.includes("monitoring");
  return (
    <Dialog title={t("keys")} close={close}>
      {table(rows)}
      {monitors && <><h3>{t("diagrams")}</h3>{table(editor)}</>}
    </Dialog>
  );
}

