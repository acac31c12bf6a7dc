// Missions as the files of the mirror have them, for reads while the fleet does not answer.

import { resolve } from "node:path";
import { BusError } from "../../../../shared/bus/bus.ts";
import type { MirrorFolder } from "../../../../shared/mirror/folder.ts";
import { mirrorFolderAt } from "../../../../shared/mirror/tool-folder.ts";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { findRecord, trustedHome } from "../../../../shared/sdk/fleet-home.ts";
import type { Session } from "../../runtime/session.ts";

/** The newest checkpoints of a task in which a snapshot of a mission is looked for. */
const SNAPSHOT_AMONG = 8;

/** Whether no answer came because the fleet, or a part of it, is away. */
export function isAway(error: unknown): boolean {
  if (error instanceof BusError) return error.kind !== "permission" && error.kind !== "too_large";
  return error instanceof FleetError && (error.code === "UNAVAILABLE" || error.code === "TIMEOUT");
}

/**
 * Runs a read. While the fleet is away, `copied` shows what its files say, with a warning; false: they say nothing,
 * and the failure of the read stays.
 */
export async function orFromCopies(
  session: Session,
  read: () => Promise<void>,
  copied: (copies: MissionCopies) => Promise<boolean>,
): Promise<void> {
  try {
    return await read();
  } catch (error) {
    const copies = isAway(error) ? await MissionCopies.open(session) : null;
    if (copies === null || !(await copied(copies))) throw error;
    const text = "the fleet does not answer; this is from the files of its mirror";
    session.warn({ code: "OFFLINE", text, details: { folder: copies.folder } });
  }
}

export class MissionCopies {
  readonly folder: string;
  readonly #mirror: MirrorFolder;
  readonly #tenant: string;

  private constructor(folder: string, tenant: string, mirror: MirrorFolder) {
    this.folder = folder;
    this.#mirror = mirror;
    this.#tenant = tenant;
  }

  /** null: the fleet of this call keeps no files in a home on this machine. */
  static async open(session: Session): Promise<MissionCopies | null> {
    const { tenant } = await session.client();
    const home = trustedHome(session.context.env);
    if (home === undefined) return null;
    const isOfCall = session.recordedHome === resolve(home) || findRecord(home)?.url === session.url;
    const copies = new MissionCopies(
      resolve(home),
      tenant,
      mirrorFolderAt(resolve(home), session.context.env),
    );
    return isOfCall && (await copies.#mirror.exists()) ? copies : null;
  }

  /** The sound ones, newest first. */
  async checkpointsOf(task: string, most = Number.POSITIVE_INFINITY): Promise<Checkpoint[]> {
    const place = { tenant: this.#tenant, task };
    // The ids grow with the time, so the newest are among the last names.
    const ids = (await this.#mirror.checkpoints(place)).toReversed();
    const found: Checkpoint[] = [];
    for (const id of ids) {
      if (found.length >= most) break;
      const checkpoint = await this.#mirror.checkpoint(place, id);
      if (checkpoint !== null) found.push(checkpoint);
    }
    return found.toSorted((a, b) => b.metadata.seq - a.metadata.seq);
  }

  /** The newest checkpoint with a snapshot of the mission, or the named one. null: there is none. */
  async snapshotOf(mission: string, id?: string): Promise<MissionCopy | null> {
    const all = id === undefined ? await this.checkpointsOf(mission) : [await this.checkpoint(id)];
    return all.map((one) => (one === null ? null : missionCopy(one))).find((one) => one !== null) ?? null;
  }

  /** The mission with the newest copied checkpoint, of those that have not ended. null: there is none. */
  async current(): Promise<MissionCopy | null> {
    let newest: MissionCopy | null = null;
    for await (const { tenant, task } of this.#mirror.tasks()) {
      if (tenant !== this.#tenant) continue;
      const recent = await this.checkpointsOf(task, SNAPSHOT_AMONG);
      const copy = recent.map(missionCopy).find((one) => one !== null) ?? null;
      if (copy === null || recent[0]?.execution_state.phase === "complete") continue;
      if (newest === null || timeOf(copy) > timeOf(newest)) newest = copy;
    }
    return newest;
  }

  /** null: there is no sound file of this checkpoint. */
  async checkpoint(id: string): Promise<Checkpoint | null> {
    for await (const place of this.#mirror.tasks()) {
      if (place.tenant !== this.#tenant) continue;
      const checkpoint = await this.#mirror.checkpoint(place, id);
      if (checkpoint !== null) return checkpoint;
    }
    return null;
  }
}

export interface MissionCopy {
  readonly mission_id: string;
  readonly title: string;
  readonly checkpoint: Checkpoint;
  readonly fleet: NonNullable<Checkpoint["fleet"]>;
}

/** null: the checkpoint has no snapshot of the mission. */
function missionCopy(checkpoint: Checkpoint): MissionCopy | null {
  const { fleet, metadata, execution_state } = checkpoint;
  if (fleet === undefined || fleet.mission_id !== metadata.task_id) return null;
  return { mission_id: fleet.mission_id, title: execution_state.goal ?? "", checkpoint, fleet };
}

const timeOf = ({ checkpoint }: MissionCopy): string => checkpoint.metadata.committed_at;
