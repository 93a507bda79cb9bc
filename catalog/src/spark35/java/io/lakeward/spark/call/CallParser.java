package io.lakeward.spark.call;

import io.lakeward.spark.catalog.ServiceCatalog;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.Star;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.JavaConverters;
import scala.collection.Seq;

/**
 * Parses CALL of a procedure of Lakeward. Spark's own parser reads the name and the arguments,
 * because these are written as in the call of a function. The parser before this one gets all other
 * statements, a CALL of another catalog among them.
 */
public final class CallParser implements ParserInterface {

  private final SparkSession session;
  private final ParserInterface delegate;

  /** {@code delegate}: the parser of the session without this one. */
  public CallParser(SparkSession session, ParserInterface delegate) {
    this.session = session;
    this.delegate = delegate;
  }

  @Override
  public LogicalPlan parsePlan(String statement) throws ParseException {
    Optional<String> call = CallSyntax.nameAndArguments(statement);
    if (call.isEmpty()) {
      return delegate.parsePlan(statement);
    }
    Expression expression;
    try {
      expression = delegate.parseExpression(call.get());
    } catch (ParseException wrongCall) {
      try {
        return delegate.parsePlan(statement);
      } catch (ParseException noOtherCall) {
        throw wrongCall;
      }
    }
    if (expression instanceof UnresolvedFunction function && hasArgumentsOnly(function)) {
      Optional<ServiceProcedure> procedure = procedure(function);
      if (procedure.isPresent()) {
        return CallCommand.of(
            procedure.get(), function.arguments(), delegate, procedure.get().answer());
      }
    }
    return delegate.parsePlan(statement);
  }

  /** Whether the call of a function has nothing that the CALL of a procedure cannot have. */
  private static boolean hasArgumentsOnly(UnresolvedFunction function) {
    return !function.isDistinct()
        && function.filter().isEmpty()
        && !function.ignoreNulls()
        && JavaConverters.seqAsJavaList(function.arguments()).stream()
            .noneMatch(Star.class::isInstance);
  }

  /** The procedure of Lakeward with that name; empty if the name is of another catalog. */
  private Optional<ServiceProcedure> procedure(UnresolvedFunction function) {
    List<String> parts = JavaConverters.seqAsJavaList(function.nameParts());
    CatalogManager catalogs = session.sessionState().catalogManager();
    boolean isQualified = parts.size() > 1 && catalogs.isCatalogRegistered(parts.get(0));
    CatalogPlugin catalog =
        isQualified ? catalogs.catalog(parts.get(0)) : catalogs.currentCatalog();
    if (!(catalog instanceof ServiceCatalog lakeward)) {
      return Optional.empty();
    }
    int last = parts.size() - 1;
    String[] namespace =
        last == 0
            ? catalogs.currentNamespace()
            : parts.subList(isQualified ? 1 : 0, last).toArray(String[]::new);
    return Optional.of(lakeward.loadProcedure(Identifier.of(namespace, parts.get(last))));
  }

  @Override
  public Expression parseExpression(String text) throws ParseException {
    return delegate.parseExpression(text);
  }

  @Override
  public TableIdentifier parseTableIdentifier(String text) throws ParseException {
    return delegate.parseTableIdentifier(text);
  }

  @Override
  public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
    return delegate.parseFunctionIdentifier(text);
  }

  @Override
  public Seq<String> parseMultipartIdentifier(String text) throws ParseException {
    return delegate.parseMultipartIdentifier(text);
  }

  @Override
  public LogicalPlan parseQuery(String text) throws ParseException {
    return delegate.parseQuery(text);
  }

  @Override
  public StructType parseTableSchema(String text) throws ParseException {
    return delegate.parseTableSchema(text);
  }

  @Override
  public DataType parseDataType(String text) throws ParseException {
    return delegate.parseDataType(text);
  }
}
