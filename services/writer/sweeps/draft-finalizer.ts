/** Finalizes superseded drafts. */
import { type DraftSweep, stepDraftSweep } from "../../../shared/records/drafts/superseded-drafts.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import type { WriterConfig } from "../config.ts";
import type { WriterContext } from "../context.ts";
import { startLedSweep } from "./led-sweep.ts";

const EVERY_MS_MAX = 30_000;

export interface DraftFinalizerContext
  extends ServiceContext,
    Pick<WriterContext, "store" | "format" | "leases"> {
  readonly config: Pick<WriterConfig, "finalizeDraftsAfter" | "policies">;
}

export function startDraftFinalizer(context: DraftFinalizerContext): Stop {
  const { store, format, clock, log, metrics, config } = context;
  const { finalizeDraftsAfter: afterMs, policies } = config;
  if (afterMs === null) return async () => {};
  const now = () => clock.now();
  const { incarnation } = format;
  const sweep: DraftSweep = { store, incarnation, service: "writer", now, afterMs, policies };
  const parts = {
    name: "draft sweep",
    lease: "drafts",
    everyMs: Math.min(EVERY_MS_MAX, afterMs / 4),
  } as const;
  return startLedSweep(
    context,
    parts,
    () => stepDraftSweep(sweep),
    ({ finalized, skipped }) => {
      metrics.draftsFinalizedTotal.inc(finalized);
      if (finalized > 0) log.info({ finalized }, "superseded drafts finalized");
      for (const one of skipped) log.warn(one, "a superseded draft cannot be finalized");
    },
  );
}
