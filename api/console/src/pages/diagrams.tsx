import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { altText, diagramVars, Drawing, paper } from "../diagram/draw";
import { canvasOf, emptyDoc, text, toDoc, type ById, type Doc } from "../diagram/model";
import { keepDraft, keptDraft } from "../editor/draft";
import { Editor } from "../editor/editor";
import { t } from "../i18n";
import { useKeys } from "../keys";
import { limitsOf, type Limits } from "../limits";
import { diagramOf, sees } from "../menus";
import { every, usePoll } from "../poll";
import { go, href, replace, type Route } from "../router";
import { session } from "../session";
import { keep, kept } from "../store";
import { toVar, type Var } from "../variables";
import { Age, Empty, Freshness, useLoad, When } from "../ui";

export function Diagrams({ route }: { route: Route }): JSX.Element {
  const [, id, mode] = route.path;
  const made = useRef({ id: "", count: 0 }); // the diagram whose editor began with a new one
  if (id === "new" || mode === "edit") {
    const { count } = made.current;
    const becomes = (newId: number) => {
      made.current = { id: String(newId), count: count + 1 };
      replace(`diagrams/${newId}/edit`);
    };
    return <Edit key={id === "new" ? "new" + count : id === made.current.id ? "new" + (count - 1) : id + "edit"} id={id === "new" ? 0 : Number(id)} becomes={becomes} />;
  }
  if (id !== undefined) return <View key={id} id={Number(id)} />;
  return <List />;
}

interface Known {
  doc: Doc;
  vars: Var[];
  byId: ById;
  limits: Limits;
}

/** Loads a diagram and what is bound to it; null if there is no such diagram. */
async function load(id: number): Promise<Known | "missing"> {
  const [found, variables, charts] = await Promise.all([
    id > 0 ? api.diagram(id) : null, api.variables(), api.charts().catch(() => []),
  ]);
  if (id > 0 && !found) return "missing";
  const vars = variables.map(toVar);
  const doc = found ? toDoc(found) : emptyDoc(t("newDiagram"));
  if (found) remember(id, found.title);
  return { doc, vars, byId: new Map(vars.map((v) => [String(v.id), v])), limits: limitsOf(charts) };
}

interface Recent {
  id: number;
  title: string;
}

const recentKey = () => "diagrams." + (session.get()?.schema ?? "");

/** The diagrams that were opened last in this browser. */
function recents(): Recent[] {
  try {
    const found: unknown = JSON.parse(kept(recentKey()) ?? "[]");
    return Array.isArray(found) ? found.filter((r): r is Recent => typeof r?.id === "number" && typeof r?.title === "string") : [];
  } catch {
    return [];
  }
}

function remember(id: number, title: string): void {
  keep(recentKey(), JSON.stringify([{ id, title }, ...recents().filter((r) => r.id !== id)].slice(0, 20)));
}

/** The diagrams that menu items of the user lead to. */
async function ofMenus(): Promise<Recent[]> {
  const own = session.get()!;
  const [menus, rows] = await Promise.all([api.menus(), api.permissions("id_user", own.user, own.profile)]);
  return menus.flatMap((m) => {
    const id = sees(rows, m) ? diagramOf(m) : null;
    return id === null ? [] : [{ id, title: m.name }];
  });
}

/** The interface has no list of diagrams: menus lead to them, and one is opened by its id. */
function List(): JSX.Element {
  const known = recents();
  const menus = useLoad(() => ofMenus().catch(() => []));
  const offered = menus.data?.filter((m) => !known.some((r) => r.id === m.id)) ?? [];
  const open = (e: SubmitEvent) => {
    e.preventDefault();
    const id = String(new FormData(e.currentTarget as HTMLFormElement).get("id"));
    if (/^\d+$/.test(id)) go("diagrams/" + id);
  };
  return (
    <>
      <h1>{t("diagrams")}</h1>
      <form class="tools" onSubmit={open}>
        <label>{t("diagramId")} <input name="id" inputmode="numeric" pattern="[0-9]+" required data-search /></label>
        <button type="submit" class="primary">{t("open")}</button>
        <a class="button" href={href("diagrams/new")}>{t("newDiagram")}</a>
      </form>
      <DraftNotice id={0} />
      <ul class="links">{[...known, ...offered].map((r) => <li key={r.id}><a href={href("diagrams/" + r.id)}><b>{r.title}</b> <span class="dim">{r.id}</span></a></li>)}</ul>
      {menus.data && known.length + menus.data.length === 0
        && <Empty><p>{t("noRecents")}</p><pre>tsmon tenant diagrams {session.get()?.schema || "SCHEMA"} list</pre></Empty>}
    </>
  );
}

function Missing({ id }: { id: number }): JSX.Element {
  return <Empty><p>{t("noDiagram", { id })}</p><p><a href={href("diagrams")}>{t("diagrams")}</a></p></Empty>;
}

function View({ id }: { id: number }): JSX.Element {
  const loaded = useLoad(() => load(id), [id]);
  return <When of={loaded}>{(data) => (data === "missing" ? <Missing id={id} /> : <Picture id={id} {...data} />)}</When>;
}

function Picture({ id, doc, byId, limits }: Known & { id: number }): JSX.Element {
  const vars = useMemo(() => diagramVars(doc, byId), [doc, byId]);
  const poll = usePoll(vars, every.map);
  const live = useMemo(() => ({ poll, byId, limits }), [poll, byId, limits]);
  const { width, height } = canvasOf(doc);
  useKeys({ e: () => go(`diagrams/${id}/edit`) });
  return (
    <>
      <div class="tools">
        <h1>{text(doc.head.title)}</h1>
        <span class="space" />
        <Freshness poll={poll} />
        <a class="button" href={href("diagrams")}>{t("otherDiagram")}</a>
        <a class="button" href={href(`diagrams/${id}/edit`)}>{t("edit")}</a>
      </div>
      <DraftNotice id={id} />
      <div class="diagram-frame" tabindex={0} role="group" aria-label={text(doc.head.title)}>
        <svg class="diagram" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={altText(doc)} style={{ background: paper(doc) }}>
          <Drawing doc={doc} live={live} />
        </svg>
      </div>
    </>
  );
}

/** Says that changes to a diagram are kept in this tab, if there are any. */
function DraftNotice({ id }: { id: number }): JSX.Element | null {
  const [draft, setDraft] = useState(() => keptDraft(id));
  if (!draft) return null;
  const drop = () => { keepDraft(id, null); setDraft(null); };
  return (
    <div class="notice draft" role="status">
      <span>{t(id > 0 ? "draftKept" : "draftNew")} <Age at={draft.at} /></span>
      <a class="button" href={href(id > 0 ? `diagrams/${id}/edit` : "diagrams/new")}>{t("draftGoOn")}</a>
      <button type="button" onClick={drop}>{t("draftDrop")}</button>
    </div>
  );
}

/** The editor, which goes on when a new diagram has got its id. */
function Edit({ id, becomes }: { id: number; becomes: (newId: number) => void }): JSX.Element {
  const [saves, setSaves] = useState(0);
  const loaded = useLoad(() => load(id), [id, saves]);
  const reload = (newId: number) => (newId === id ? setSaves((n) => n + 1) : becomes(newId));
  return (
    <When of={loaded}>
      {(data) => (data === "missing" ? <Missing id={id} /> : <Editor id={id} loaded={data.doc} vars={data.vars} byId={data.byId} reload={reload} />)}
    </When>
  );
}
