// The facts that `fleet doctor` judges: of this machine, of the connection to the bus, and of all services.

import { join } from "node:path";
import { hasClientKeys, hasKeys } from "../../../../shared/bus/access/access-files.ts";
import { ACCESS_FOLDER } from "../../../../shared/bus/access/local-credentials.ts";
import type { BusLink } from "../../../../shared/bus/bus.ts";
import { acceptsWithoutCredentials } from "../../../../shared/bus/open-access.ts";
import { readsPlainText } from "../../../../shared/bus/server-greeting.ts";
import type { AccessLogMode, AccessSession } from "../../../../shared/protocol/access-log.ts";
import { ANCHOR_TARGETS, type AuditAnchor } from "../../../../shared/protocol/audit-anchors.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { SigningKeyList } from "../../../../shared/protocol/signing-keys.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createDiskSpace, type DiskState } from "../../../../shared/runtime/disk-space.ts";
import { packageVersion } from "../../../../shared/runtime/process/installation.ts";
import { StartupError } from "../../../../shared/runtime/process/startup.ts";
import { tlsFor } from "../../../../shared/sdk/address.ts";
import {
  connectionName,
  type ServiceDiagnosis,
  silentServices,
} from "../../../../shared/sdk/client/diagnosis.ts";
import { findRecord, trustedHome } from "../../../../shared/sdk/fleet-home.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import type { ListedSpool } from "../../../../shared/sdk/spool/spool-list.ts";
import { capitalized } from "../../rendering/terminal/text.ts";
import { callFailureOf } from "../../runtime/failure.ts";
import type { Session } from "../../runtime/session.ts";
import { spoolsOf } from "../spool/spool.ts";
import { type FolderPart, folderPartsOf } from "./encrypted-parts.ts";
import { findOpenFiles, type OpenFile } from "./open-files.ts";

/** A question without an answer, and the next step. */
export interface Obstacle {
  readonly problem: string;
  readonly fix: string;
}

export type Answer = boolean | "unknown";

export interface BusFacts {
  readonly link: BusLink;
  /** The identity of the fleet; undefined: the bus announces none. */
  readonly fleet: string | undefined;
  /** Whether one of the addresses of the bus accepts messages without TLS. */
  readonly plainText: Answer;
  /** Whether one of them accepts a program without credentials. */
  readonly withoutCredentials: Answer;
  /** Of one tenant and caller: why the services could not be asked. */
  readonly unasked: Obstacle | null;
  readonly services: readonly ServiceDiagnosis[];
  /** Connected services without an answer; null: the connections of the bus are not known. */
  readonly silent: readonly string[] | null;
  readonly signingKeys: SigningKeyList | Obstacle;
  /** The newest anchor of the tenant's audit log of each target. */
  readonly anchors: readonly AuditAnchor[] | Obstacle;
  readonly accessLog: AccessLogFacts | Obstacle;
}

/** Of the tenant of the caller. */
interface AccessLogFacts {
  readonly mode: AccessLogMode;
  readonly sessions: readonly AccessSession[];
}

export interface DoctorFacts {
  /** The name of the program in commands. */
  readonly program: string;
  readonly version: string;
  /** The clock of this machine. */
  readonly nowMs: number;
  readonly url: string;
  readonly bus: BusFacts | Obstacle;
  readonly machine: {
    /** The folder of the fleet's data; null: there is none on this machine. */
    readonly home: string | null;
    /** Whether this machine has the keys of the fleet, which make credentials for any name. */
    readonly hasKeys: boolean;
    readonly openFiles: readonly OpenFile[];
    /** undefined: its disk cannot be read. */
    readonly disk: DiskState | undefined;
    readonly spools: readonly ListedSpool[];
    readonly parts: readonly FolderPart[];
  };
}

const PROBE_MS = 2_000;

export const isReached = (bus: DoctorFacts["bus"]): bus is BusFacts => "link" in bus;

/** Throws only for a wrong call or wrong settings: everything else is a finding. */
export async function collectFacts(session: Session): Promise<DoctorFacts> {
  const { context, programName } = session;
  const bus = await askBus(session);
  const home = trustedHome(context.env);
  const hasHome = home !== undefined && findRecord(home) !== undefined;
  return {
    program: programName,
    version: packageVersion(),
    nowMs: session.view.now,
    url: session.url ?? "",
    bus,
    machine: {
      home: hasHome ? home : null,
      hasKeys: home !== undefined && holdsKeys(join(home, ACCESS_FOLDER)),
      openFiles: findOpenFiles(hasHome ? home : undefined, context.env),
      disk: diskOf(hasHome ? home : "."),
      spools: await spoolsOf(session),
      parts: hasHome ? folderPartsOf(home) : [],
    },
  };
}

/** A copy for clients makes credentials for any name too. */
const holdsKeys = (folder: string): boolean => hasKeys(folder) || hasClientKeys(folder);

async function askBus(session: Session): Promise<BusFacts | Obstacle> {
  try {
    const client = await session.client();
    const { link } = client.admin;
    const urls = session.url ?? "";
    const { tls } = tlsFor(urls, session.context.env);
    const [asked, signingKeys, anchors, accessLog, plainText, withoutCredentials] = await Promise.all([
      askServices(client, session),
      client.admin.signingKeys(session.deadline).catch((error: unknown) => obstacleOf(error, session)),
      newestAnchors(client, session).catch((error: unknown) => obstacleOf(error, session)),
      askAccessLog(client, session).catch((error: unknown) => obstacleOf(error, session)),
      anyOf(urls, (url) => readsPlainText(url, PROBE_MS)),
      anyOf(urls, (url) => acceptsWithoutCredentials(url, { tls, timeoutMs: PROBE_MS })),
    ]);
    const probed = { plainText, withoutCredentials };
    return { link, fleet: client.fleetId, ...probed, signingKeys, anchors, accessLog, ...asked };
  } catch (error) {
    return obstacleOf(error, session);
  }
}

async function newestAnchors({ admin }: FleetClient, { deadline }: Session): Promise<readonly AuditAnchor[]> {
  const pages = await Promise.all(
    ANCHOR_TARGETS.map((target) => admin.auditAnchors({ ...deadline, target, limit: 1 })),
  );
  return pages.flatMap(({ anchors }) => anchors);
}

async function askAccessLog({ admin }: FleetClient, { deadline }: Session): Promise<AccessLogFacts> {
  const one = { ...deadline, limit: 1 };
  const [{ mode }, { sessions }] = await Promise.all([
    admin.accessLog.list(one),
    admin.accessLog.blocks(one),
  ]);
  return { mode, sessions };
}

async function askServices(
  client: FleetClient,
  session: Session,
): Promise<Pick<BusFacts, "unasked" | "services" | "silent">> {
  try {
    const first = await client.admin.diagnose(session.deadline);
    // A service that has just started is connected before it listens for questions.
    const again =
      (silentServices(first) ?? []).length > 0 ? await client.admin.diagnose(session.deadline) : first;
    const services = latestOf([...first, ...again]);
    return { unasked: null, services, silent: silentServices(services) };
  } catch (error) {
    return { unasked: obstacleOf(error, session), services: [], silent: null };
  }
}

/** One answer of each instance. */
const latestOf = (all: readonly ServiceDiagnosis[]): ServiceDiagnosis[] => [
  ...new Map(all.map((one) => [connectionName(one.diagnosis), one])).values(),
];

function obstacleOf(error: unknown, session: Session): Obstacle {
  // Such as a key that other users can read: programs refuse to use it.
  if (error instanceof StartupError) return { problem: error.message, fix: capitalized(error.hint ?? "") };
  if (!(error instanceof FleetError)) throw error;
  const { body, hint } = callFailureOf(error, { url: session.url, fleet: session.programName });
  return { problem: body.message, fix: hint };
}

/** True if it is true of one of several servers. */
async function anyOf(urls: string, probe: (url: string) => Promise<Answer>): Promise<Answer> {
  const found = await Promise.all(urls.split(",").map((url) => probe(url.trim())));
  return found.find((one) => one === true) ?? found.find((one) => one === "unknown") ?? false;
}

function diskOf(folder: string): DiskState | undefined {
  try {
    return createDiskSpace([{ use: "store", path: folder }], { clock: systemClock }).disks()[0];
  } catch {
    return undefined;
  }
}
