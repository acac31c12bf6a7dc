// The types of installation.mjs, which is plain JavaScript because it runs before TypeScript is available.

export function installMissing(root: string): Promise<number>;
export function installMissingNats(root: string): Promise<void>;
