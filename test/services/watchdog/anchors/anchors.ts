/** Anchors in tests: the lines of a folder, and the records in the store. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AnchorTarget } from "../../../../shared/protocol/audit-anchors.ts";
import { readAnchors, type StoredAnchor } from "../../../../shared/records/audit-log/anchor-records.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { WRITING } from "../../../harness/records/signed.ts";

export interface FolderLine {
  readonly at: string;
  readonly size: number;
  readonly checkpoint: string;
}

/** The whole lines of a tenant's file, as an auditor reads it; half lines are skipped. */
export function linesOf(folder: string, tenant = "default"): FolderLine[] {
  return readFileSync(join(folder, `${tenant}.jsonl`), "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as FolderLine];
      } catch {
        return [];
      }
    });
}

export async function anchorsIn(
  store: Store,
  target: AnchorTarget,
  tenant = "default",
): Promise<readonly StoredAnchor[]> {
  const page = { beforeSize: undefined, limit: 100 };
  const { anchors } = await store.read(WRITING, (reader) => readAnchors(reader, { tenant, target }, page));
  return anchors;
}
