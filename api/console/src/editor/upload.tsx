import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asFailure, upload } from "../api";
import { t } from "../i18n";
import { sentence } from "../ui";

/** The key pair of uploads, kept as long as the page is open. */
const pair = { access: "", secret: "" };

/** Uploads a picture and hands on its address. */
export function Upload({ done }: { done: (url: string) => void }): JSX.Element {
  const [message, setMessage] = useState("");
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const file = form.get("file");
    pair.access = String(form.get("access"));
    pair.secret = String(form.get("secret"));
    if (!(file instanceof File) || file.size === 0) return;
    setMessage(t("saving"));
    try {
      done((await upload(file, pair.access, pair.secret)).url);
      setMessage("");
    } catch (error) {
      setMessage(sentence(asFailure(error)));
    }
  };
  return (
    <details>
      <summary>{t("upload")}</summary>
      <form onSubmit={(e) => void submit(e)}>
        <label>{t("file")} <input type="file" name="file" accept="image/*" required /></label>
        <label>{t("accessKey")} <input name="access" required autocomplete="off" defaultValue={pair.access} /></label>
        <label>{t("secretKey")} <input name="secret" type="password" required autocomplete="off" defaultValue={pair.secret} /></label>
        <button type="submit">{t("upload")}</button>
        {message && <p class="dim" role="status">{message}</p>}
      </form>
    </details>
  );
}
