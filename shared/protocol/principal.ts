/**
 * Principals: the agents and people that act on tasks. A principal's token is the caller in the subjects of
 * commands, queued commands and queries, and therefore what the server's permissions prove. The token of an
 * agent is its id, that of a person is `human=<name>`. No other token contains `=`, so no agent can look like
 * a person. No agent is named `fleet`: that is the sender of the messages that the fleet itself writes.
 */
import { LIMITS } from "./limits.ts";

export type PrincipalKind = "agent" | "human";

export interface Principal {
  readonly kind: PrincipalKind;
  readonly name: string;
}

/** The fleet itself, as the sender of messages. No principal has this name. */
export const FLEET_SENDER = "fleet";

const PERSON_PREFIX = "human=";
/** The pattern of a principal's token. */
export const PRINCIPAL = new RegExp(`^(?:${PERSON_PREFIX})?[A-Za-z0-9_-]{1,${LIMITS.id_chars_max}}$`);

export const PRINCIPAL_FORM = `1 to ${LIMITS.id_chars_max} characters of A-Z a-z 0-9 _ -, after ${PERSON_PREFIX} for a person, and not ${FLEET_SENDER}`;

export function isPrincipal(token: string): boolean {
  return PRINCIPAL.test(token) && token !== FLEET_SENDER;
}

/** undefined: the text is no principal's token. */
export function parsePrincipal(token: string): Principal | undefined {
  if (!isPrincipal(token)) return undefined;
  return token.startsWith(PERSON_PREFIX)
    ? { kind: "human", name: token.slice(PERSON_PREFIX.length) }
    : { kind: "agent", name: token };
}

export function principalToken({ kind, name }: Principal): string {
  return kind === "human" ? PERSON_PREFIX + name : name;
}

/** The token of a person whose name may have any characters, such as the name of an account. */
export function personOf(name: string): string {
  const plain = name
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .replace(/[^A-Za-z0-9_-]+/g, "-");
  return principalToken({ kind: "human", name: plain.slice(0, LIMITS.id_chars_max) || "unknown" });
}

/** The principal as people read it: `ada (person)`, or the id of an agent. Other text is unchanged. */
export function principalLabel(token: string): string {
  const principal = token.startsWith(PERSON_PREFIX) ? parsePrincipal(token) : undefined;
  return principal === undefined ? token : `${principal.name} (person)`;
}
