// The size of the embedded store, read beside the fleet that writes it: its pages, and its rows by family. The environment is opened for
// each reading, because a snapshot that stays open would itself keep replaced pages from being used again.

import { setImmediate as turn } from "node:timers/promises";
import { KEY_SPACE } from "../../../../shared/store/limits.ts";
import { openForReading, rowsOf } from "../../../../shared/store/lmdb/environment.ts";
import type { KeyRange } from "../../../../shared/store/store.ts";
import { placeOf } from "../../sizing/counted-store.ts";
import { RESIDENT } from "../programs/names.ts";
import { OF_RESIDENTS, ROWS, type Values } from "./sample.ts";

interface PageCounts {
  readonly treeBranchPageCount: number;
  readonly treeLeafPageCount: number;
  readonly overflowPages: number;
}
interface EnvironmentStats extends PageCounts {
  readonly root: { readonly pageSize: number };
  /** The tree that lists the free pages. */
  readonly free: PageCounts;
  readonly lastPageNumber: number;
  readonly numReaders: number;
}

/** Families whose rows retention removes. Those of tasks that stay must be flat; a completed task keeps its last checkpoint. */
const BOUNDED = new Set(["checkpoints", "versions", "chunks", "order", "children"]);

type Environment = Awaited<ReturnType<typeof openForReading>>;
/** Small, so that a reading disturbs this process only briefly. */
const PAGE_ROWS = 5_000;

/** `withRows`: also counts the rows, which reads all of them. */
export async function storeSizes(path: string, withRows: boolean): Promise<Values> {
  const environment = await openForReading(path);
  try {
    return { ...pageSizes(environment), ...(withRows && (await rowSizes(environment))) };
  } finally {
    await environment.close();
  }
}

function pageSizes(environment: Environment): Values {
  const stats = environment.getStats() as unknown as EnvironmentStats;
  const pages = ({ treeBranchPageCount, treeLeafPageCount, overflowPages }: PageCounts) =>
    treeBranchPageCount + treeLeafPageCount + overflowPages;
  const { pageSize } = stats.root;
  const used = (pages(stats) + pages(stats.free)) * pageSize;
  const free = (stats.lastPageNumber + 1) * pageSize - used;
  return { store: { used, free, readers: stats.numReaders } };
}

async function rowSizes(environment: Environment): Promise<Values> {
  const families: Record<string, { rows: number; bytes: number }> = {};
  let range: KeyRange = KEY_SPACE;
  for (;;) {
    const rows = rowsOf(environment, range, { limit: PAGE_ROWS });
    for (const { key, value } of rows) {
      const { family, next } = placeOf(key);
      const isResident = BOUNDED.has(family) && String(next).startsWith(RESIDENT);
      const subject = `${ROWS}${family}${isResident ? OF_RESIDENTS : ""}`;
      families[subject] ??= { rows: 0, bytes: 0 };
      families[subject].rows += 1;
      families[subject].bytes += key.length + value.length;
    }
    const last = rows.at(-1);
    if (rows.length < PAGE_ROWS || last === undefined) return families;
    range = { begin: Buffer.concat([last.key, Buffer.of(0)]), end: KEY_SPACE.end };
    await turn();
  }
}
