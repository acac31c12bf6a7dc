export const OLDEST_NODE: string;
export const OLDEST_NATS: string;
export function versionAtLeast(version: string, oldest: string): boolean;
