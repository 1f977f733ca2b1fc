"""Chemical reactions as text (SMILES), split into the pieces that RXNMapper's vocabulary has."""

import re

# Textbook reactions: esters, amides, ethers, reductions, couplings, protections.
REACTIONS = (
    "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F",
    "C1COCCO1.CC(C)(C)OC(=O)CONC(=O)NCc1cccc2ccccc12.Cl>>O=C(O)CONC(=O)NCc1cccc2ccccc12",
    "CC(=O)O.CCO>>CC(=O)OCC",
    "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1",
    "O=C(O)c1ccccc1.CO>>COC(=O)c1ccccc1",
    "Brc1ccccc1.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1",
    "CI.Oc1ccccc1>>COc1ccccc1",
    "O=C1CCCCC1.[BH4-].[Na+]>>OC1CCCCC1",
    "CC(=O)c1ccccc1.NO>>CC(=NO)c1ccccc1",
    "CC(C)(C)OC(=O)OC(=O)OC(C)(C)C.NCc1ccccc1>>CC(C)(C)OC(=O)NCc1ccccc1",
    "COC(=O)c1ccc(Br)cc1.[OH-].[Na+]>>O=C(O)c1ccc(Br)cc1",
    "O=[N+]([O-])c1ccccc1.[H][H]>>Nc1ccccc1",
    "CC(=O)OC(C)=O.O=C(O)c1ccccc1O>>CC(=O)Oc1ccccc1C(=O)O",
    "CS(=O)(=O)Cl.OCCc1ccccc1>>CS(=O)(=O)OCCc1ccccc1",
    "C1CCNCC1.O=Cc1ccccc1>>c1ccc(CN2CCCCC2)cc1",
    "CCOC(=O)CC(=O)OCC.BrCCCBr>>CCOC(=O)C1(C(=O)OCC)CCC1",
)
PIECE = re.compile(
    r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|%\d{2}|\d)"
)


def pieces() -> str:
    """One reaction a line, pieces apart."""
    return "\n".join(" ".join(PIECE.findall(reaction)) for reaction in REACTIONS)
