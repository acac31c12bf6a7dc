/** Ends the locks and the messages of missions whose time is over. */
import { uuidv7 } from "uuidv7";
import { type MissionSweep, stepMissionSweep } from "../../../shared/records/mission/mission-sweep.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import type { WriterConfig } from "../config.ts";
import type { WriterContext } from "../context.ts";
import { startLedSweep } from "./led-sweep.ts";

/** The longest time for which an expired lock keeps others waiting, if no command meets it. */
const EVERY_MS = 1_000;

interface MissionSweepContext
  extends ServiceContext,
    Pick<WriterContext, "store" | "format" | "leases" | "mirror"> {
  readonly config: Pick<WriterConfig, "policies">;
}

export function startMissionSweep(context: MissionSweepContext): Stop {
  const { store, format, clock, log, metrics, config } = context;
  const { policies } = config;
  const now = () => clock.now();
  const { incarnation } = format;
  const own = { service: "writer", policies, isMirrored: context.mirror !== undefined };
  const sweep: MissionSweep = { store, incarnation, ...own, now, newId: uuidv7 };
  const parts = { name: "mission sweep", lease: "locks", everyMs: EVERY_MS } as const;
  return startLedSweep(
    context,
    parts,
    () => stepMissionSweep(sweep),
    ({ changes, failed, skipped }) => {
      metrics.missionLocksSweptTotal.inc(changes);
      metrics.missionMessagesFailedTotal.inc(failed);
      if (changes > 0) log.info({ changes }, "locks of missions ended");
      if (failed > 0) log.warn({ failed }, "messages of missions were not delivered in time");
      for (const one of skipped) log.warn(one, "the locks or messages of a mission cannot be read");
    },
  );
}
