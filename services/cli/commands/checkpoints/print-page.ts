// Prints a page of checkpoints: the table, the command for the next page, and warnings about missing checkpoints.

import type { CheckpointPage } from "../../../../shared/protocol/checkpoint-pages.ts";
import type { Session } from "../../runtime/session.ts";

export async function showCheckpoints(
  session: Session,
  page: CheckpointPage,
  text: { title: string; withTask: boolean; next: string | undefined; none?: string },
): Promise<void> {
  const { renderCheckpointTable } = await import("../../rendering/checkpoints/checkpoint-table.ts");
  const { checkpoints } = page;
  const { pageWithBlocks, signaturesOf } = await import("../esign/shown-signatures.ts");
  const signatures = await signaturesOf(session, checkpoints);
  await session.show(pageWithBlocks(page, signatures), () =>
    renderCheckpointTable({ ...text, checkpoints, signatures }, session.view),
  );
  warnAbout(session, page);
}

/** Corrupt checkpoints are never returned. Each one that is missing from a page is reported. */
export function warnAbout(session: Session, page: CheckpointPage & { readonly rebuilding?: boolean }): void {
  for (const corrupt of page.corrupt) {
    session.warn({
      code: "CHECKPOINT_CORRUPT",
      text: "a checkpoint is corrupt and was left out",
      details: { ...corrupt },
    });
  }
  if (page.rebuilding) {
    session.warn({
      code: "INDEX_REBUILDING",
      text: "the search index is being rebuilt; the result may be incomplete",
      details: {},
    });
  }
}
