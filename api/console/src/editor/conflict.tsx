import type { JSX } from "preact";
import { altText, Drawing } from "../diagram/draw";
import { canvasOf, differences, type Doc } from "../diagram/model";
import { t } from "../i18n";
import { Dialog } from "../ui";

interface ConflictProps {
  mine: Doc;
  theirs: Doc;
  takeTheirs: () => void;
  keepMine: () => void;
  close: () => void;
}

/** Shows that somebody else saved the diagram meanwhile: both states, and the choice. */
export function Conflict({ mine, theirs, takeTheirs, keepMine, close }: ConflictProps): JSX.Element {
  return (
    <Dialog title={t("conflictTitle")} close={close} wide>
      <p>{t("conflictText", { count: differences(theirs, mine) })}</p>
      <div class="sides">
        <Side title={t("conflictMine")} doc={mine}><button type="button" class="primary" onClick={keepMine}>{t("keepMine")}</button></Side>
        <Side title={t("conflictTheirs")} doc={theirs}><button type="button" onClick={takeTheirs}>{t("takeTheirs")}</button></Side>
      </div>
    </Dialog>
  );
}

function Side({ title, doc, children }: { title: string; doc: Doc; children: JSX.Element }): JSX.Element {
  const { width, height } = canvasOf(doc);
  return (
    <section>
      <h3>{title}</h3>
      <svg class="diagram" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={altText(doc)}><Drawing doc={doc} editing /></svg>
      {children}
    </section>
  );
}
