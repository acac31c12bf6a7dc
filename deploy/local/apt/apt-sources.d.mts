export type AptSource = { uris: string[]; suites: string[]; signedBy?: string };
export type Mirror = { uri: string; signedBy?: string };

export function parseSources(path: string, text: string): AptSource[];
export function mirrorsOf(sources: AptSource[], codenames: string[]): Mirror[];
