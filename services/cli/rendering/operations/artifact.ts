// Artifacts, for operators.

import type { ArtifactPage, ArtifactReference } from "../../../../shared/protocol/artifacts.ts";
import { field } from "../terminal/fields.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { bytesText, count, counted, plain, principalText } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export function renderReference({ name, media_type, sha256, size }: ArtifactReference, view: View): string {
  return [
    field("Artifact", view.colors.bold(plain(name)), view),
    field("Media type", plain(media_type), view),
    field("Size", `${bytesText(size)} (${count(size)} bytes)`, view),
    field("SHA-256", sha256, view),
  ].join("\n");
}

export function renderArtifacts(page: ArtifactPage, next: string | undefined, view: View): string {
  const total = `${bytesText(page.total_bytes)} of ${bytesText(page.total_bytes_max)} used`;
  if (page.artifacts.length === 0) return `No artifacts; ${total}.`;
  const heads = ["SHA-256", "SIZE", "STORED", "BY", "REFERENCED BY"];
  const rows = page.artifacts.map(({ sha256, size, stored_at, stored_by, references }) => [
    sha256,
    bytesText(size),
    ago(stored_at, view.now),
    principalText(stored_by),
    references.length === 0
      ? view.colors.yellow("no checkpoint")
      : [...new Set(references.map(({ task_id }) => plain(task_id)))].join(", "),
  ]);
  return [
    ...tableLines(rows, { heads, view, right: [1] }),
    "",
    ...pageEnd(`${counted(rows.length, "artifact")}; ${total}`, next, view),
  ].join("\n");
}
