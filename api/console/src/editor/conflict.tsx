import type { JSX } from "preact";
import { altText, Drawing } from "../diagram/draw";
import { boxOf, canvasOf, differing, find, settings, type Doc, type Ref } from "../diagram/model";
import { t, type Key } from "../i18n";
import { session } from "../session";
import { Dialog } from "../ui";
import { label } from "./bar";

interface ConflictProps {
  mine: Doc;
  theirs: Doc;
  /** What the server said of who saved, and when. */
  message: string;
  takeTheirs: () => void;
  keepMine: () => void;
  close: () => void;
}

/** Who saved and when, in the server's answer to a save that came too late. */
export function savedBy(message: string): { who: string; when: string } | null {
  const found = /saved by (.+) at (.+?)\.?, since it was read/.exec(message);
  return found ? { who: found[1]!, when: found[2]! } : null;
}

/** How many of what differs are named. */
const most = 12;

/** Shows that somebody else saved the diagram meanwhile: both states, and the choice. */
export function Conflict({ mine, theirs, message, takeTheirs, keepMine, close }: ConflictProps): JSX.Element {
  const objects = differing(theirs, mine);
  const heads = settings(theirs, mine);
  const by = savedBy(message);
  const named = [...heads.map(settingName), ...objects.map((ref) => label(find(mine, ref) ? mine : theirs, ref))];
  return (
    <Dialog title={t("conflictTitle")} close={close} wide>
      <p>{by ? t("conflictBy", by) : message} {t("conflictText", { count: objects.length, settings: heads.length })}</p>
      {named.length > 0 && <p class="dim">{named.slice(0, most).join(" · ")}{named.length > most && " …"}</p>}
      <div class="sides">
        <Side title={t("conflictMine")} doc={mine} marked={objects} heads={heads} />
        <Side title={t("conflictTheirs")} doc={theirs} marked={objects} heads={heads} />
        <button type="button" onClick={keepMine}>{t("keepMine")}</button>
        <button type="button" onClick={takeTheirs}>{t("takeTheirs")}</button>
      </div>
      <p class="dim">{t("conflictKept")} <code>tsmon tenant diagrams {session.get()?.schema || "SCHEMA"} restore {String(theirs.head.id)} {String(theirs.head.version)}</code></p>
      <p><button type="button" class="primary" onClick={close}>{t("conflictLater")}</button></p>
    </Dialog>
  );
}

const names: Record<string, Key> = { title: "title", backgroundColor: "backgroundColor", backgroundImg: "backgroundImg", width: "width", height: "height" };

const settingName = (name: string) => (names[name] ? t(names[name]) : name);

interface SideProps {
  title: string;
  doc: Doc;
  marked: Ref[];
  heads: string[];
}

/** One state: its drawing with frames around what differs, and the settings that differ. */
function Side({ title, doc, marked, heads }: SideProps): JSX.Element {
  const { width, height } = canvasOf(doc);
  return (
    <section>
      <h3>{title}</h3>
      <svg class="diagram" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={altText(doc)}>
        <Drawing doc={doc} editing />
        {marked.map((ref) => {
          const item = find(doc, ref);
          if (!item) return null;
          const box = boxOf(ref.kind, item);
          return <rect key={ref.kind + ref.id} class="differs" x={box.left - 8} y={box.top - 8} width={box.right - box.left + 16} height={box.bottom - box.top + 16} />;
        })}
      </svg>
      {heads.map((name) => <p key={name}>{settingName(name)}: <b>{String(doc.head[name] ?? "") || "–"}</b></p>)}
    </section>
  );
}
