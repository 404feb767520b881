import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { demoLogin, Failure, login } from "../api";
import { t, type Key } from "../i18n";
import { keepsDrafts } from "../editor/draft";
import { begin, ended } from "../session";
import { keep, kept, useStore } from "../store";
import { sentence } from "../ui";

interface Field {
  name: "email" | "tokenApp" | "schemaName" | "ts_name";
  label: Key;
  type: "email" | "password" | "text";
  autocomplete: string;
}

const fields: Field[] = [
  { name: "email", label: "email", type: "email", autocomplete: "username" },
  { name: "tokenApp", label: "tokenApp", type: "password", autocomplete: "current-password" },
  { name: "schemaName", label: "schemaName", type: "text", autocomplete: "organization" },
  { name: "ts_name", label: "tsName", type: "text", autocomplete: "off" },
];

/** Whether the server offers its demo to this page. */
const demo = document.documentElement.dataset.demo !== undefined;

export function Login(): JSX.Element {
  const why = useStore(ended);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const enter = async (ask: () => Promise<string>) => {
    setBusy(true);
    setProblem("");
    try {
      begin(await ask());
    } catch (error) {
      setBusy(false);
      setProblem(explain(error));
    }
  };
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    for (const { name } of fields) if (name !== "tokenApp") keep(name, text(name));
    void enter(() => login({ email: text("email"), tokenApp: text("tokenApp"), schemaName: text("schemaName"), ts_name: text("ts_name") }));
  };
  return (
    <div class="login">
      <h1>{t("login")}</h1>
      {why && <p role="status" class="notice">{t(why === "expired" ? "endedExpired" : "endedLeft")}{keepsDrafts() && " " + t("endedDrafts")}</p>}
      {demo && (
        <section>
          <p>{t("demoText")}</p>
          <button type="button" class="primary" disabled={busy} onClick={() => void enter(demoLogin)}>{t("demoOpen")}</button>
        </section>
      )}
      <form onSubmit={submit}>
        {fields.map((f) => (
          <label key={f.name}>
            {t(f.label)}
            <input
              name={f.name} type={f.type as "text"} required autocomplete={f.autocomplete} spellcheck={false} autocapitalize="none"
              defaultValue={f.name === "tokenApp" ? "" : (kept(f.name) ?? "")}
            />
          </label>
        ))}
        <button type="submit" class={demo ? "" : "primary"} disabled={busy}>{t(busy ? "loggingIn" : "logIn")}</button>
      </form>
      {problem && <p role="alert" class="problem">{problem}</p>}
    </div>
  );
}

function explain(error: unknown): string {
  if (!(error instanceof Failure)) return String(error);
  if (error.status === 401) return t("loginRefused");
  if (error.status === 503) return t("demoPreparing");
  return sentence(error);
}
