// Types of nats-binary.mjs, which stays plain JavaScript because it runs before TypeScript can.

export type Environment = Record<string, string | undefined>;
export type NatsServer = { path: string; version: string };

export function ownNatsPath(root: string): string;
export function findNatsServer(where: { root: string; env?: Environment }): NatsServer | { problem: string };
export function probe(path: string): NatsServer | { problem: string };
