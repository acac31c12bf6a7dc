/**
 * Asks all services at once. Nothing records which instances run, so the answers end with the time, or with the last connection that the
 * bus knows of.
 */
import { BusError, type Message } from "../../bus/bus.ts";
import { decodeAnswer, encodeBody } from "../../integrity/wire.ts";
import { type Diagnosis, diagnosisSchema } from "../../protocol/diagnosis.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { ClientConnection } from "../request/connection.ts";
import { type CallOptions, toFleetError } from "../request/request.ts";

/** The answer of one service, and its clock compared with that of the caller. */
export interface ServiceDiagnosis {
  readonly diagnosis: Diagnosis;
  /** Its clock minus that of the caller. */
  readonly offsetMs: number;
  /** The offset is right within plus or minus so much: half of the time that the messages took. */
  readonly uncertaintyMs: number;
}

interface QuestionParts {
  readonly connection: ClientConnection;
  readonly clock: Clock;
  readonly tenant: string;
  readonly agentId: string;
}

/** A signing service has no store, and does not answer. */
const ANSWERING = /^(?!signer\/)/;

/** The name of the service's connection, as the bus knows it. */
export const connectionName = ({ service, instance }: Pick<Diagnosis, "service" | "instance">): string =>
  `${service}/${instance}`;

/** The services that are connected to the bus and have not answered. null: no service knows the connections of the bus. */
export function silentServices(diagnoses: readonly ServiceDiagnosis[]): string[] | null {
  const lists = diagnoses.flatMap(({ diagnosis }) =>
    diagnosis.bus?.connections ? [diagnosis.bus.connections] : [],
  );
  if (lists.length === 0) return null;
  const answered = new Set(diagnoses.map(({ diagnosis }) => connectionName(diagnosis)));
  return [...new Set(lists.flat())].filter((name) => ANSWERING.test(name) && !answered.has(name)).sort();
}

/** Throws FleetError: FORBIDDEN where the credentials are not those of an operator. No answers: no service that can answer runs. */
export async function askForDiagnoses(
  { connection, tenant, agentId, clock }: QuestionParts,
  { deadlineMs = LIMITS.diagnosis_ms, signal }: CallOptions,
): Promise<ServiceDiagnosis[]> {
  const found: ServiceDiagnosis[] = [];
  const body = encodeBody({}, CONTENT_TYPES.json);
  const sent = clock.now();
  try {
    await connection.bus.gather(
      SUBJECTS.query(tenant, agentId, "diagnose"),
      { body },
      { timeoutMs: deadlineMs, signal },
      (message) => {
        const received = clock.now();
        const diagnosis = diagnosisIn(message);
        if (diagnosis !== undefined) found.push(compared(diagnosis, sent, received));
        return silentServices(found)?.length === 0;
      },
    );
  } catch (error) {
    if (!(error instanceof BusError)) throw error;
    if (error.kind !== "no_responders") throw toFleetError(error);
  }
  return found;
}

/** undefined: another answer. A reader of an older version refuses the question, which it does not know. */
function diagnosisIn({ body, headers }: Message): Diagnosis | undefined {
  try {
    const answer = decodeAnswer(body, headers.get(HEADERS.contentType)) as { readonly result?: unknown };
    return diagnosisSchema.safeParse(answer.result).data;
  } catch {
    return undefined;
  }
}

/** The messages took the time between both clocks of the caller, without the work of the service. */
function compared(diagnosis: Diagnosis, sent: number, received: number): ServiceDiagnosis {
  const { received_ms, answered_ms } = diagnosis;
  return {
    diagnosis,
    offsetMs: (received_ms - sent + (answered_ms - received)) / 2,
    uncertaintyMs: Math.max(0, (received - sent - (answered_ms - received_ms)) / 2),
  };
}
